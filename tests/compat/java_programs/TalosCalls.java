import com.xiaomi.infra.galaxy.rpc.thrift.Credential;
import com.xiaomi.infra.galaxy.rpc.thrift.GrantType;
import com.xiaomi.infra.galaxy.rpc.thrift.Grantee;
import com.xiaomi.infra.galaxy.rpc.thrift.UserType;
import com.xiaomi.infra.galaxy.talos.admin.TalosAdmin;
import com.xiaomi.infra.galaxy.talos.client.TalosClientConfig;
import com.xiaomi.infra.galaxy.talos.client.TalosClientFactory;
import com.xiaomi.infra.galaxy.talos.consumer.SimpleConsumer;
import com.xiaomi.infra.galaxy.talos.consumer.TalosConsumerConfig;
import com.xiaomi.infra.galaxy.talos.producer.SimpleProducer;
import com.xiaomi.infra.galaxy.talos.producer.TalosProducerConfig;
import com.xiaomi.infra.galaxy.talos.thrift.*;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;

/** Every call of the official Java SDK of Talos, many times, by several threads. */
final class TalosCalls {
    private static final String ORGANISATION = "CL1";
    private static final int THREADS = 4;
    private static final int PARTITIONS = 3;
    private static final int BATCH_MAX = 5;
    private static final int PAYLOAD_MAX = 300;
    private static final int FETCH = 1000;
    private static final String[] CODECS = {"NONE", "SNAPPY", "GZIP"};

    private final Calls calls;
    private final Properties properties;
    private final String grantee;
    private final int rounds;
    private final TalosAdmin admin;
    private final TopicService.Iface topics;
    private final MessageService.Iface messages;
    private final ConsumerService.Iface consumers;
    private final QuotaService.Iface quotas;

    TalosCalls(Calls calls, String url, Credential credential, String grantee, int rounds) {
        this.calls = calls;
        this.grantee = grantee;
        this.rounds = rounds;
        properties = new Properties();
        properties.setProperty("galaxy.talos.service.endpoint", url);
        TalosClientFactory factory = new TalosClientFactory(
                new TalosClientConfig(properties), credential,
                calls.watched(TalosClientFactory.generateHttpClient(64, 64, 10_000)));
        admin = new TalosAdmin(factory);
        topics = factory.newTopicClient();
        messages = factory.newMessageClient();
        consumers = factory.newConsumerClient();
        quotas = factory.newQuotaClient();
    }

    public static void main(String[] arguments) throws Exception {
        Credential credential = new Credential().setType(UserType.DEV_XIAOMI);
        credential.setSecretKeyId(arguments[1]).setSecretKey(arguments[2]);
        Calls calls = new Calls();
        int rounds = Integer.parseInt(arguments[4]);
        TalosCalls whole = new TalosCalls(calls, arguments[0], credential, arguments[3], rounds);
        calls.inThreads(THREADS, whole::everything);
        calls.print();
        System.exit(0);
    }

    private void everything(int thread) throws Exception {
        Random random = new Random(thread);
        versions();
        for (int round = 0; round < rounds; round++) {
            topic("java-" + thread + "-" + round, round % 2 == 0, random);
        }
        quotasOfUsers(thread);
    }

    private void versions() {
        Version version = TalosClientFactory.getVersion();
        for (TalosBaseService.Iface service : Arrays.asList(topics, messages, consumers, quotas)) {
            calls.get("getServiceVersion", service::getServiceVersion);
            calls.run("validClientVersion", () -> service.validClientVersion(version));
        }
    }

    /** The life of one topic, of an organisation or of the caller's own. */
    private void topic(String name, boolean own, Random random) throws Exception {
        TopicInfo made = created(name, own);
        TopicTalosResourceName resource = made.getTopicTalosResourceName();
        changed(name, resource, own);
        List<TopicInfo> all = calls.get("listTopics", admin::listTopic);
        calls.same(all.contains(made), own, "the topic is among the caller's");
        permissions(resource);
        for (int partition = 0; partition < PARTITIONS; partition++) {
            TopicAndPartition place = new TopicAndPartition(name, resource, partition);
            stored(place, random);
        }
        group(name, resource);
        quotasOfTopics(resource, own);
        DeleteTopicRequest end = new DeleteTopicRequest(resource);
        calls.run("deleteTopic", () -> admin.deleteTopic(end));
        DescribeTopicRequest gone = new DescribeTopicRequest(name);
        calls.refused("describeTopic", "TOPIC_NOT_EXIST", () -> admin.describeTopic(gone));
    }

    private TopicInfo created(String name, boolean own) {
        TopicAttribute attribute = new TopicAttribute().setPartitionNumber(PARTITIONS);
        if (own) { // TalosAdmin lets a key that begins with AK name topics of organisations only
            CreateTopicRequest request = new CreateTopicRequest(name, attribute);
            return calls.get("createTopic", () -> topics.createTopic(request)).getTopicInfo();
        }
        CreateTopicRequest request = new CreateTopicRequest(ORGANISATION + "/" + name, attribute);
        TopicInfo made = calls.get("createTopic", () -> admin.createTopic(request)).getTopicInfo();
        calls.same(made.getOwnerId(), ORGANISATION, "owner");
        calls.refused("createTopic", "TOPIC_EXIST", () -> admin.createTopic(request));
        return made;
    }

    private void changed(String name, TopicTalosResourceName resource, boolean own) {
        DescribeTopicRequest request = new DescribeTopicRequest(name);
        if (own) {
            Topic topic = calls.get("describeTopic", () -> admin.describeTopic(request));
            calls.same(topic.getTopicInfo().getTopicTalosResourceName(), resource, "resource");
            calls.same(topic.getTopicAttribute().getPartitionNumber(), PARTITIONS, "partitions");
        } else { // a plain name means the caller's own, and the client sends no other name
            calls.refused("describeTopic", "TOPIC_NOT_EXIST", () -> admin.describeTopic(request));
        }
        TopicAttribute longer = new TopicAttribute().setMessageRetentionSecs(7200);
        longer.setPartitionNumber(own ? PARTITIONS : PARTITIONS + 1);
        calls.run("changeTopicAttribute", () -> admin.changeTopicAttribute(
                new ChangeTopicAttributeRequest(resource, longer)));
        if (own) {
            calls.run("addTopicPartitionNumber", () -> admin.addTopicPartitionNumber(
                    resource, PARTITIONS + 1)); // it looks the topic up by its plain name
            DescribeTopicResponse changed =
                    calls.get("describeTopic", () -> topics.describeTopic(request));
            TopicAttribute attribute = changed.getTopicAttribute();
            calls.same(attribute.getPartitionNumber(), PARTITIONS + 1, "partitions");
            calls.same(attribute.getMessageRetentionSecs(), 7200, "retention");
        }
    }

    private void permissions(TopicTalosResourceName resource) {
        Grantee team = new Grantee().setType(GrantType.DEVELOPER).setIdentifier(grantee);
        GetPermissionRequest query = new GetPermissionRequest(resource, team);
        ListPermissionRequest list = new ListPermissionRequest(resource);
        SetPermissionRequest grant = new SetPermissionRequest(
                resource, team, Permission.GET_MESSAGE_AND_DESCRIBE_TOPIC);
        calls.run("setPermission", () -> admin.setPermission(grant));
        int mask = Permission.GET_MESSAGE_AND_DESCRIBE_TOPIC.getValue();
        Map<String, Integer> granted =
                calls.get("listPermission", () -> admin.listPermission(list));
        calls.same(granted.get(grantee), mask, "permissions");
        int found = calls.get("getPermission", () -> admin.queryPermission(query));
        calls.same(found, mask, "permission");
        calls.run("revokePermission", () -> admin.revokePermission(
                new RevokePermissionRequest(resource, team)));
        calls.same(calls.get("getPermission", () -> admin.queryPermission(query)), 0, "revoked");
    }

    /** Put by each codec and read back, through the simple clients and by the calls themselves. */
    private void stored(TopicAndPartition place, Random random) throws Exception {
        List<byte[]> written = new ArrayList<>();
        for (String codec : CODECS) {
            TalosProducerConfig config = new TalosProducerConfig(properties);
            config.setCompressionType(codec);
            SimpleProducer producer =
                    new SimpleProducer(config, place, messages, "java", new AtomicLong());
            for (int put = 0; put < 2; put++) {
                List<Message> batch = batch(random, written);
                calls.run("putMessage", () -> producer.putMessageList(batch));
            }
        }
        SimpleConsumer consumer =
                new SimpleConsumer(new TalosConsumerConfig(properties), place, messages, "java");
        for (int first = 0; first < written.size(); first += 1 + written.size() / 4) {
            int start = first;
            List<MessageAndOffset> read =
                    calls.get("getMessage", () -> consumer.fetchMessage(start, FETCH));
            calls.same(read.size(), written.size() - start, "messages read");
            for (int index = 0; index < read.size(); index++) {
                calls.same(read.get(index).getMessageOffset(), (long) (start + index), "offset");
                byte[] payload = read.get(index).getMessage().getMessage();
                calls.check(Arrays.equals(payload, written.get(start + index)), "payload");
            }
        }
        blocks(place, written.size());
        offsets(place, written.size());
    }

    private List<Message> batch(Random random, List<byte[]> written) {
        List<Message> batch = new ArrayList<>();
        for (int left = 1 + random.nextInt(BATCH_MAX); left > 0; left--) {
            byte[] payload = new byte[1 + random.nextInt(PAYLOAD_MAX)];
            random.nextBytes(payload);
            written.add(payload);
            batch.add(new Message(ByteBuffer.wrap(payload)).setSequenceNumber("s" + left));
        }
        return batch;
    }

    /** The first block as it is stored. */
    private void blocks(TopicAndPartition place, int stored) {
        GetMessageRequest request = new GetMessageRequest(place, 0, "java-raw");
        request.setMaxGetMessageNumber(1);
        GetMessageResponse response =
                calls.get("getMessage", () -> messages.getMessage(request));
        MessageBlock block = response.getMessageBlocks().get(0);
        calls.same(block.getStartMessageOffset(), 0L, "first offset");
        calls.check(block.getMessageNumber() <= stored, "messages of a block");
    }

    private void offsets(TopicAndPartition place, int stored) {
        long end = stored - 1;
        GetTopicOffsetRequest whole =
                new GetTopicOffsetRequest(place.getTopicTalosResourceName());
        List<OffsetInfo> all = calls.get("getTopicOffset", () -> admin.getTopicOffset(whole));
        calls.same(all.size(), PARTITIONS + 1, "partitions with offsets");
        OffsetInfo one = calls.get("getPartitionOffset", () -> admin.getPartitionOffset(
                new GetPartitionOffsetRequest(place)));
        calls.same(one.getEndOffset(), end, "end offset");
        List<OffsetInfo> some = calls.get("getPartitionsOffset", () -> messages.getPartitionsOffset(
                new GetPartitionsOffsetRequest(Arrays.asList(place)))).getOffsetInfoList();
        calls.same(some.get(0).getEndOffset(), end, "end offset");
    }

    /** A worker's calls, as the SDK's consumer makes them. */
    private void group(String name, TopicTalosResourceName resource) {
        String group = "group-" + name;
        List<Integer> owned = new ArrayList<>(Arrays.asList(0, 1));
        ConsumeUnit unit = new ConsumeUnit(group, resource, owned, "worker");
        TopicAndPartition place = new TopicAndPartition(name, resource, 0);
        calls.check(calls.get("lockWorker", () -> consumers.lockWorker(
                new LockWorkerRequest(unit))).isRegisterSuccess(), "lockWorker");
        LockPartitionResponse locked = calls.get("lockPartition", () -> consumers.lockPartition(
                new LockPartitionRequest(unit)));
        calls.same(locked.getSuccessPartitions(), owned, "locked");
        RenewResponse renewed =
                calls.get("renew", () -> consumers.renew(new RenewRequest(unit)));
        calls.check(renewed.isHeartbeatSuccess(), "heartbeat");
        calls.check(renewed.getFailedPartitionList().isEmpty(), "renewed partitions");
        Map<String, List<Integer>> workers = calls.get("queryWorker", () -> consumers.queryWorker(
                new QueryWorkerRequest(group, resource))).getWorkerMap();
        calls.same(workers, Map.of("worker", owned), "workers");
        QueryOffsetRequest query = new QueryOffsetRequest(group, place);
        for (long offset = 0; offset < 3; offset++) {
            CheckPoint point = new CheckPoint(group, place, offset, "worker");
            calls.check(calls.get("updateOffset", () -> consumers.updateOffset(
                    new UpdateOffsetRequest(point))).isSuccess(), "updateOffset");
            calls.same(calls.get("queryOffset", () -> consumers.queryOffset(query))
                    .getMsgOffset(), offset, "committed offset");
        }
        calls.run("unlockPartition", () -> consumers.unlockPartition(
                new UnlockPartitionRequest(unit)));
    }

    private void quotasOfTopics(TopicTalosResourceName resource, boolean own) {
        BaseQuota quota = new BaseQuota(1L << 30);
        calls.run("setTopicQuota", () -> admin.setTopicQuota(
                new SetTopicQuotaRequest(resource, quota)));
        QueryTopicQuotaRequest query = new QueryTopicQuotaRequest(resource);
        calls.run("queryTopicQuota", () -> admin.queryTopicQuota(query));
        calls.same(calls.get("queryTopicQuota", () -> topics.queryTopicQuota(query))
                .getTopicQuota().getSpaceQuota(), 1L << 30, "space quota");
        calls.run("deleteTopicQuota", () -> admin.deleteTopicQuota(
                new DeleteTopicQuotaRequest(resource)));
        // TalosAdmin does not let a key that begins with AK make this call.
        AddSubResourceNameRequest moved =
                new AddSubResourceNameRequest(resource, ORGANISATION, "CI1");
        if (own) {
            calls.run("addSubResourceName", () -> topics.addSubResourceName(moved));
        } else {
            calls.refused("addSubResourceName", "SUB_RESOURCE_NAME_EXIST",
                    () -> topics.addSubResourceName(moved));
        }
    }

    private void quotasOfUsers(int thread) {
        UserQuota quota = new UserQuota(new BaseQuota(1L << 40)).setTopicNumberQuota(100);
        String user = grantee + (thread == 0 ? "" : thread);
        for (int round = 0; round < rounds; round++) {
            calls.run("setUserQuota", () -> admin.setUserQuota(
                    new SetUserQuotaRequest(user, quota)));
            calls.check(calls.get("listUserQuota", admin::listAllUserQuota)
                    .containsKey(user), "listUserQuota");
            calls.get("queryUserQuota", admin::queryUserQuota);
            calls.run("deleteUserQuota", () -> admin.deleteUserQuota(
                    new DeleteUserQuotaRequest(user)));
        }
    }
}
