import com.xiaomi.infra.galaxy.sds.client.ClientFactory;
import com.xiaomi.infra.galaxy.sds.client.TableScanner;
import com.xiaomi.infra.galaxy.sds.thrift.*;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;

/** Every call of the official Java client of SDS, many times, by several threads. */
final class SdsCalls {
    private static final int THREADS = 4;
    private static final int ROWS = 25;
    private static final int PAGE = 7;
    private static final int TEXT_MAX = 200;
    private static final String REFUSED = "UNSUPPORTED_OPERATION";

    private final Calls calls;
    private final int rounds;
    private final AdminService.Iface admin;
    private final TableService.Iface tables;
    private final AuthService.Iface auth;

    SdsCalls(Calls calls, String url, Credential credential, int rounds) {
        this.calls = calls;
        this.rounds = rounds;
        ClientFactory factory = new ClientFactory().setCredential(credential);
        factory.setHttpClient(calls.watched(ClientFactory.generateHttpClient(64, 64, 10_000)));
        admin = factory.newAdminClient(url + "/v1/api/admin");
        tables = factory.newTableClient(url + "/v1/api/table");
        auth = factory.newAuthClient(url + "/v1/api/auth");
    }

    public static void main(String[] arguments) throws Exception {
        Credential credential = new Credential().setType(UserType.DEV_XIAOMI);
        credential.setSecretKeyId(arguments[1]).setSecretKey(arguments[2]);
        Calls calls = new Calls();
        int rounds = Integer.parseInt(arguments[3]);
        SdsCalls whole = new SdsCalls(calls, arguments[0], credential, rounds);
        calls.inThreads(THREADS, whole::everything);
        calls.print();
        System.exit(0);
    }

    private void everything(int thread) throws Exception {
        Random random = new Random(thread);
        String name = "java_" + thread;
        created(name);
        for (int round = 0; round < rounds; round++) {
            String group = "g" + round;
            records(name, group, random);
            conditions(name, group);
            batches(name, group);
            scans(name, group);
            services(name);
        }
        notServed(name);
        ended(name);
    }

    private void created(String name) {
        Map<String, DataType> types = new HashMap<>();
        types.put("grp", DataType.STRING);
        types.put("id", DataType.INT64);
        types.put("token", DataType.STRING);
        types.put("count", DataType.INT64);
        types.put("bytes", DataType.BINARY);
        TableSchema schema = new TableSchema(Arrays.asList(new KeySpec().setAttribute("id")));
        schema.setEntityGroup(new EntityGroupSpec().setEnableHash(true)
                .setAttributes(Arrays.asList(new KeySpec().setAttribute("grp"))));
        schema.setAttributes(types).setPreSplits(2);
        TableSpec spec = new TableSpec().setSchema(schema);
        spec.setMetadata(new TableMetadata().setDescription("first"));
        TableInfo made = calls.get("createTable", () -> admin.createTable(name, spec));
        calls.same(made.getName(), name, "name");
        calls.refused("createTable", "RESOURCE_ALREADY_EXISTS",
                () -> admin.createTable(name, spec));
        TableSpec told = calls.get("describeTable", () -> admin.describeTable(name));
        told.getMetadata().setDescription("second");
        calls.run("alterTable", () -> admin.alterTable(name, told));
        calls.same(calls.get("describeTable", () -> admin.describeTable(name))
                .getMetadata().getDescription(), "second", "description");
    }

    private static Map<String, Datum> key(String group, long number) {
        Map<String, Object> key = new HashMap<>();
        key.put("grp", group);
        key.put("id", number);
        return DatumUtil.toDatum(key);
    }

    private static PutRequest row(String name, String group, long number, String token) {
        Map<String, Datum> record = key(group, number);
        record.put("token", DatumUtil.toDatum(token));
        record.put("count", DatumUtil.toDatum(number));
        return new PutRequest().setTableName(name).setRecord(record);
    }

    private Map<String, Object> got(String name, String group, long number) {
        GetRequest request = new GetRequest().setTableName(name).setKeys(key(group, number));
        Map<String, Datum> item = calls.get("get", () -> tables.get(request)).getItem();
        return item == null ? Map.of() : DatumUtil.fromDatum(item);
    }

    private void records(String name, String group, Random random) {
        for (long number = 0; number < ROWS; number++) {
            long id = number;
            String token = "t".repeat(random.nextInt(TEXT_MAX)) + random.nextInt();
            byte[] bytes = new byte[1 + random.nextInt(TEXT_MAX)];
            random.nextBytes(bytes);
            PutRequest put = row(name, group, id, token);
            put.getRecord().put("bytes", DatumUtil.toDatum(bytes));
            calls.check(calls.get("put", () -> tables.put(put)).isSuccess(), "put");
            Map<String, Object> found = got(name, group, id);
            calls.same(found.get("token"), token, "token");
            calls.check(Arrays.equals((byte[]) found.get("bytes"), bytes), "bytes");
            IncrementRequest more = new IncrementRequest().setTableName(name);
            more.setKeys(key(group, id)).setAmounts(DatumUtil.toDatum(Map.of("count", 3L)));
            Map<String, Datum> amounts =
                    calls.get("increment", () -> tables.increment(more)).getAmounts();
            calls.same(DatumUtil.fromDatum(amounts).get("count"), id + 3, "amount");
        }
    }

    private void conditions(String name, String group) {
        PutRequest absent = row(name, group, 0, "no");
        absent.setCondition(new SimpleCondition().setRowExist(false));
        calls.check(!calls.get("put", () -> tables.put(absent)).isSuccess(), "put of a new row");
        SimpleCondition is = new SimpleCondition().setOperator(OperatorType.EQUAL);
        is.setField("count").setValue(DatumUtil.toDatum(3L));
        PutRequest matched = row(name, group, 0, "yes");
        matched.setCondition(is);
        calls.check(calls.get("put", () -> tables.put(matched)).isSuccess(), "matching put");
        calls.same(got(name, group, 0).get("token"), "yes", "token");
        RemoveRequest wrong = new RemoveRequest().setTableName(name).setKeys(key(group, 0));
        wrong.setCondition(is); // the put above has set it to 0
        calls.check(!calls.get("remove", () -> tables.remove(wrong)).isSuccess(), "remove");
        RemoveRequest column = new RemoveRequest().setTableName(name).setKeys(key(group, 0));
        column.setAttributes(Arrays.asList("token"));
        calls.check(calls.get("remove", () -> tables.remove(column)).isSuccess(), "column");
        calls.check(!got(name, group, 0).containsKey("token"), "the column is gone");
        RemoveRequest whole = new RemoveRequest().setTableName(name).setKeys(key(group, 0));
        calls.check(calls.get("remove", () -> tables.remove(whole)).isSuccess(), "remove");
        calls.same(got(name, group, 0), Map.of(), "removed row");
    }

    private void batches(String name, String group) {
        List<BatchRequestItem> items = new ArrayList<>();
        for (long number = 100; number < 105; number++) {
            Request put = Request.putRequest(row(name, group, number, "b" + number));
            items.add(new BatchRequestItem().setAction(BatchOp.PUT).setRequest(put));
        }
        GetRequest read = new GetRequest().setTableName(name).setKeys(key(group, 104));
        items.add(new BatchRequestItem().setAction(BatchOp.GET)
                .setRequest(Request.getRequest(read)));
        BatchRequest batch = new BatchRequest().setItems(items);
        List<BatchResultItem> done = calls.get("batch", () -> tables.batch(batch)).getItems();
        calls.check(done.stream().allMatch(BatchResultItem::isSuccess), "items of a batch");
        Map<String, Datum> last = done.get(done.size() - 1).getResult().getGetResult().getItem();
        calls.same(DatumUtil.fromDatum(last).get("token"), "b104", "token");
    }

    private void scans(String name, String group) {
        Map<String, Datum> whole = DatumUtil.toDatum(Map.of("grp", group));
        ScanRequest scan = new ScanRequest().setTableName(name).setLimit(PAGE);
        scan.setStartKey(whole).setStopKey(whole).setAttributes(Arrays.asList("id"));
        ScanRequest page = new ScanRequest(scan);
        calls.same(calls.get("scan", () -> tables.scan(page)).getRecords().size(), PAGE, "page");
        TreeSet<Object> found = calls.get("TableScanner", () -> {
            TreeSet<Object> seen = new TreeSet<>();
            for (Map<String, Datum> record : new TableScanner(tables, scan)) {
                seen.add(DatumUtil.fromDatum(record).get("id"));
            }
            return seen;
        });
        TreeSet<Object> wanted = new TreeSet<>();
        for (long number = 1; number < ROWS; number++) {
            wanted.add(number);
        }
        for (long number = 100; number < 105; number++) {
            wanted.add(number);
        }
        calls.same(found, wanted, "scanned rows");
    }

    private void services(String name) {
        Version version = calls.get("getServerVersion", tables::getServerVersion);
        calls.run("validateClientVersion", () -> tables.validateClientVersion(version));
        calls.check(calls.get("getServerTime", admin::getServerTime) > 0, "time");
        calls.check(calls.get("findAllTables", admin::findAllTables).stream()
                .anyMatch(table -> table.getName().equals(name)), "findAllTables");
        calls.same(calls.get("getTableState", () -> admin.getTableState(name)),
                TableState.ENABLED, "state");
        calls.same(calls.get("getTableStatus", () -> admin.getTableStatus(name)).getState(),
                TableState.ENABLED, "state");
        calls.check(calls.get("getTableSize", () -> admin.getTableSize(name)) > 0, "size");
        calls.check(!calls.get("getTableSplits", () -> admin.getTableSplits(
                name, new HashMap<>(), new HashMap<>())).isEmpty(), "splits");
        ClientMetrics none = new ClientMetrics().setMetricDataList(new ArrayList<>());
        calls.run("putClientMetrics", () -> admin.putClientMetrics(none));
    }

    /** The calls that the server declares not to serve: a refusal in the client's own terms. */
    private void notServed(String name) {
        MetricQueryRequest metric = new MetricQueryRequest();
        AppInfo app = new AppInfo().setAppId("app");
        PutRequest row = row(name, "g", 1, "t");
        refused("putToRebuildIndex", () -> tables.putToRebuildIndex(row));
        refused("saveAppInfo", () -> admin.saveAppInfo(app));
        refused("getAppInfo", () -> admin.getAppInfo("app"));
        refused("findAllApps", admin::findAllApps);
        refused("findAllAppInfo", admin::findAllAppInfo);
        refused("cloneTable", () -> admin.cloneTable(name, name + "_2", false));
        refused("renameTable", () -> admin.renameTable(name, name + "_2"));
        refused("queryMetric", () -> admin.queryMetric(metric));
        refused("queryMetrics", () -> admin.queryMetrics(Arrays.asList(metric)));
        refused("subscribePhoneAlert", () -> admin.subscribePhoneAlert(name, "1"));
        refused("unsubscribePhoneAlert", () -> admin.unsubscribePhoneAlert(name, "1"));
        refused("subscribeEmailAlert", () -> admin.subscribeEmailAlert(name, "a"));
        refused("unsubscribeEmailAlert", () -> admin.unsubscribeEmailAlert(name, "a"));
        refused("listSubscribedPhone", () -> admin.listSubscribedPhone(name));
        refused("listSubscribedEmail", () -> admin.listSubscribedEmail(name));
        refused("getTableHistorySize", () -> admin.getTableHistorySize(name, 0, 1));
        refused("listSnapshots", () -> admin.listSnapshots(name));
        refused("snapshotTable", () -> admin.snapshotTable(name, "s"));
        refused("deleteSnapshot", () -> admin.deleteSnapshot(name, "s"));
        // The last argument is another type in later definitions of this call.
        calls.refused("restoreSnapshot", "restoreSnapshot_args has the wrong type",
                () -> admin.restoreSnapshot(name, "s", name, false));
        refused("listAllSnapshots", admin::listAllSnapshots);
        refused("cancelSnapshotTable", () -> admin.cancelSnapshotTable(name, "s"));
        refused("getSnapshotState", () -> admin.getSnapshotState(name, "s"));
        refused("getQuotaInfo", () -> admin.getQuotaInfo(name));
        OAuthInfo login = new OAuthInfo("app", AppUserAuthProvider.XIAOMI_OAUTH);
        refused("createCredential", () -> auth.createCredential(login));
    }

    private void refused(String name, Calls.Step call) {
        calls.refused(name, REFUSED, call);
    }

    private void ended(String name) {
        calls.run("disableTable", () -> admin.disableTable(name));
        calls.refused("get", "RESOURCE_UNAVAILABLE", () -> tables.get(
                new GetRequest().setTableName(name).setKeys(key("g0", 1))));
        calls.run("enableTable", () -> admin.enableTable(name));
        calls.same(got(name, "g0", 101).get("token"), "b101", "token");
        calls.run("disableTable", () -> admin.disableTable(name));
        calls.run("dropTable", () -> admin.dropTable(name));
        calls.refused("describeTable", "RESOURCE_NOT_FOUND", () -> admin.describeTable(name));
    }
}
