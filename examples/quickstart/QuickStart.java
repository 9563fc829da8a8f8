import com.xiaomi.infra.galaxy.rpc.thrift.Credential;
import com.xiaomi.infra.galaxy.rpc.thrift.UserType;
import com.xiaomi.infra.galaxy.talos.client.SimpleTopicAbnormalCallback;
import com.xiaomi.infra.galaxy.talos.client.TalosClientConfig;
import com.xiaomi.infra.galaxy.talos.client.TalosClientFactory;
import com.xiaomi.infra.galaxy.talos.consumer.MessageCheckpointer;
import com.xiaomi.infra.galaxy.talos.consumer.MessageProcessor;
import com.xiaomi.infra.galaxy.talos.consumer.TalosConsumer;
import com.xiaomi.infra.galaxy.talos.consumer.TalosConsumerConfig;
import com.xiaomi.infra.galaxy.talos.producer.TalosProducer;
import com.xiaomi.infra.galaxy.talos.producer.TalosProducerConfig;
import com.xiaomi.infra.galaxy.talos.producer.UserMessageCallback;
import com.xiaomi.infra.galaxy.talos.producer.UserMessageResult;
import com.xiaomi.infra.galaxy.talos.thrift.*;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Creates a topic, puts two messages with a key, and reads them in a consumer group. */
final class QuickStart {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 1) {
            System.err.println("usage: QuickStart TOPIC");
            System.exit(2);
        }
        String[] key = System.getenv("TALOS_KEY").split(":", 2);
        Credential credential = new Credential().setType(UserType.DEV_XIAOMI);
        credential.setSecretKeyId(key[0]).setSecretKey(key[1]);
        Properties settings = new Properties();
        settings.setProperty("galaxy.talos.service.endpoint", System.getenv("TALOS_URL"));

        TalosClientFactory clients =
                new TalosClientFactory(new TalosClientConfig(settings), credential);
        TopicTalosResourceName topic = clients.newTopicClient()
                .createTopic(new CreateTopicRequest(
                        arguments[0], new TopicAttribute().setPartitionNumber(2)))
                .getTopicInfo().getTopicTalosResourceName();

        CountDownLatch stored = new CountDownLatch(2);
        TalosProducer producer = new TalosProducer(new TalosProducerConfig(settings), credential,
                topic, new SimpleTopicAbnormalCallback(), new UserMessageCallback() {
            @Override
            public void onSuccess(UserMessageResult result) {
                result.getMessageList().forEach(message -> stored.countDown());
            }

            @Override
            public void onError(UserMessageResult result) {
                result.getCause().printStackTrace();
            }
        });
        producer.addUserMessage(List.of(message("hello"), message("world")));
        wait(stored);

        CountDownLatch read = new CountDownLatch(2);
        TalosConsumer consumer = new TalosConsumer("readers", new TalosConsumerConfig(settings),
                credential, topic, () -> new MessageProcessor() {
            @Override
            public void init(TopicAndPartition partition, long offset) {}

            @Override
            public void process(List<MessageAndOffset> messages, MessageCheckpointer checkpointer) {
                for (MessageAndOffset each : messages) {
                    byte[] data = each.getMessage().getMessage();
                    System.out.println("read " + new String(data, StandardCharsets.UTF_8));
                    read.countDown();
                }
            }

            @Override
            public void shutdown(MessageCheckpointer checkpointer) {}
        }, "worker-", new SimpleTopicAbnormalCallback());
        wait(read);
        consumer.shutDown(); // commits
        producer.shutdown();
        System.exit(0);
    }

    private static Message message(String text) {
        Message made = new Message().setPartitionKey("ann");
        return made.setMessage(text.getBytes(StandardCharsets.UTF_8));
    }

    private static void wait(CountDownLatch done) throws InterruptedException {
        if (!done.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no reply within 60 s");
        }
    }
}
