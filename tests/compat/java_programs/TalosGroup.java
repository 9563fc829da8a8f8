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
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/** TalosProducer and a group of two TalosConsumers, which are stopped and started again. */
final class TalosGroup {
    private static final int PARTITIONS = 4;
    private static final int BATCH = 100;
    private static final long LOOK_MS = 50;

    private final Properties properties = new Properties();
    private final Credential credential = new Credential().setType(UserType.DEV_XIAOMI);
    private final AtomicInteger stored = new AtomicInteger();
    private final AtomicInteger refused = new AtomicInteger();
    private final AtomicInteger twice = new AtomicInteger();
    private final AtomicInteger again = new AtomicInteger(); // read before the group was stopped
    private volatile Set<String> before = Set.of();
    private final Set<String> seen = ConcurrentHashMap.newKeySet();
    private final Map<String, AtomicInteger> byWorker = new ConcurrentHashMap<>();
    private TopicTalosResourceName resource;
    private int sent;

    public static void main(String[] arguments) throws Exception {
        int messages = Integer.parseInt(arguments[3]);
        TalosGroup group = new TalosGroup(arguments[0], arguments[1], arguments[2]);
        group.create("java-group");
        List<TalosConsumer> first = group.consumers("a", "b");
        group.put(messages / 2);
        group.await("the first half", () -> group.seen.size() == group.sent);
        group.await("both to work", () -> group.worked("a") && group.worked("b"));
        group.await("all of it", () -> group.seen.size() == group.sent);
        first.forEach(TalosConsumer::shutDown);
        group.before = Set.copyOf(group.seen);
        group.put(messages - messages / 2); // while nobody reads
        List<TalosConsumer> second = group.consumers("c", "d");
        group.await("the second half", () -> group.seen.size() == group.sent);
        second.forEach(TalosConsumer::shutDown);
        group.print();
        System.exit(0);
    }

    TalosGroup(String url, String keyId, String secret) {
        properties.setProperty("galaxy.talos.service.endpoint", url);
        credential.setSecretKeyId(keyId).setSecretKey(secret);
    }

    private void create(String name) throws Exception {
        TalosClientFactory factory =
                new TalosClientFactory(new TalosClientConfig(properties), credential);
        TopicAttribute attribute = new TopicAttribute().setPartitionNumber(PARTITIONS);
        resource = factory.newTopicClient()
                .createTopic(new CreateTopicRequest(name, attribute))
                .getTopicInfo()
                .getTopicTalosResourceName();
    }

    private List<TalosConsumer> consumers(String... workers) throws Exception {
        List<TalosConsumer> made = new ArrayList<>();
        for (String worker : workers) {
            byWorker.put(worker, new AtomicInteger());
            made.add(new TalosConsumer("java-group", new TalosConsumerConfig(properties), credential,
                    resource, () -> processor(worker), worker + "-", new SimpleTopicAbnormalCallback()));
        }
        return made;
    }

    private MessageProcessor processor(String worker) {
        return new MessageProcessor() {
            @Override
            public void init(TopicAndPartition place, long offset) {}

            @Override
            public void process(List<MessageAndOffset> messages, MessageCheckpointer checkpointer) {
                for (MessageAndOffset each : messages) {
                    String text = new String(each.getMessage().getMessage(), StandardCharsets.UTF_8);
                    if (!seen.add(text)) {
                        twice.incrementAndGet();
                    }
                    if (before.contains(text)) {
                        again.incrementAndGet();
                    }
                }
                byWorker.get(worker).addAndGet(messages.size());
            }

            @Override
            public void shutdown(MessageCheckpointer checkpointer) {}
        };
    }

    /** Store messages with a producer of its own, which ends when all are stored. */
    private void put(int count) throws Exception {
        UserMessageCallback counted = new UserMessageCallback() {
            @Override
            public void onSuccess(UserMessageResult result) {
                stored.addAndGet(result.getMessageList().size());
            }

            @Override
            public void onError(UserMessageResult result) {
                refused.addAndGet(result.getMessageList().size());
                result.getCause().printStackTrace();
            }
        };
        TalosProducer producer = new TalosProducer(new TalosProducerConfig(properties), credential,
                resource, new SimpleTopicAbnormalCallback(), counted);
        int until = sent + count;
        while (sent < until) {
            List<Message> batch = new ArrayList<>();
            for (int number = 0; number < BATCH && sent < until; number++) {
                batch.add(new Message().setMessage(("m" + sent++).getBytes(StandardCharsets.UTF_8)));
            }
            producer.addUserMessage(batch);
        }
        await("the producer", () -> stored.get() + refused.get() == sent);
        producer.shutdown();
    }

    /** Whether a worker has read anything; until it has, there is always something to read. */
    private boolean worked(String worker) {
        if (byWorker.get(worker).get() > 0) {
            return true;
        }
        try {
            put(PARTITIONS);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        return false;
    }

    /** Without a limit: the test ends the program. */
    private void await(String what, BooleanSupplier done) throws InterruptedException {
        System.err.println("waits for " + what);
        while (!done.getAsBoolean()) {
            Thread.sleep(LOOK_MS);
        }
    }

    private void print() {
        System.out.printf("{\"sent\": %d, \"stored\": %d, \"refused\": %d, \"seen\": %d, "
                + "\"twice\": %d, \"again\": %d, \"workers\": {", sent, stored.get(), refused.get(),
                seen.size(), twice.get(), again.get());
        String comma = "";
        for (Map.Entry<String, AtomicInteger> each : byWorker.entrySet()) {
            System.out.printf("%s\"%s\": %d", comma, each.getKey(), each.getValue().get());
            comma = ", ";
        }
        System.out.println("}}");
    }
}
