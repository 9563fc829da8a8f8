import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The calls of kafka_calls.py with Kafka's own client: address, topic, key, secret, logins. */
public final class KafkaCalls {
    private static final String[] MECHANISMS = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"};
    private static final int RECORDS = 40, FAILURES_SHOWN = 10;

    private static final Map<String, Integer> calls = new TreeMap<>();
    private static final List<String> failures = new ArrayList<>();
    private static int failed;

    private static void check(String name, Object expected, Callable<Object> work) {
        calls.merge(name, 1, Integer::sum);
        String reason;
        try {
            Object found = work.call();
            if (Objects.equals(found, expected)) {
                return;
            }
            reason = String.valueOf(found);
        } catch (Exception error) {
            reason = error.toString();
        }
        failed++;
        if (failures.size() < FAILURES_SHOWN) {
            failures.add(name + ": " + reason.replace('"', '\''));
        }
    }

    private static Properties settings(String[] arguments, String mechanism) {
        String module = mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram";
        Properties found = new Properties();
        found.put("bootstrap.servers", arguments[0]);
        found.put("security.protocol", "SASL_PLAINTEXT");
        found.put("sasl.mechanism", mechanism);
        found.put("sasl.jaas.config", "org.apache.kafka.common.security." + module
            + "LoginModule required username=\"" + arguments[2] + "\" password=\"" + arguments[3] + "\";");
        found.put("group.id", "volume");
        found.put("enable.auto.commit", "false");
        found.put("auto.offset.reset", "none");
        found.put("fetch.max.wait.ms", "10");
        found.put("linger.ms", "0");
        return found;
    }

    private static String text(byte[] data) {
        return data == null ? "null" : Arrays.toString(data);
    }

    private static String read(KafkaConsumer<byte[], byte[]> consumer, TopicPartition place, long offset, int count) {
        consumer.assign(List.of(place));
        consumer.seek(place, offset);
        List<String> found = new ArrayList<>();
        for (int polls = 0; found.size() < count && polls < 1000; polls++) {
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofSeconds(1))) {
                found.add(text(each.key()) + text(each.value()));
            }
        }
        return String.join(" ", found.subList(0, Math.min(count, found.size())));
    }

    private static void session(String[] arguments, Properties settings, Random draw) throws Exception {
        TopicPartition place = new TopicPartition(arguments[1], 0);
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
             KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             Admin admin = Admin.create(settings)) {
            long before = consumer.endOffsets(List.of(place)).get(place), began = System.currentTimeMillis();
            List<String> wanted = new ArrayList<>();
            for (int number = 0; number < RECORDS; number++) {
                byte[] key = new byte[1 + draw.nextInt(40)];
                byte[] value = number % 16 == 7 ? null : new byte[draw.nextInt(400)];
                draw.nextBytes(key);
                if (value != null) {
                    draw.nextBytes(value);
                }
                wanted.add(text(key) + text(value));
                check("put", before + number, () ->
                    producer.send(new ProducerRecord<>(place.topic(), 0, key, value)).get().offset());
            }
            check("read", String.join(" ", wanted), () -> read(consumer, place, before, RECORDS));
            for (int number = 0; number < RECORDS; number += 2) {
                long at = before + number;
                check("read one", wanted.get(number), () -> read(consumer, place, at, 1));
            }
            check("topics", true, () -> admin.listTopics().names().get().contains(place.topic()));
            for (int number = 0; number < 10; number++) {
                long at = before + number;
                check("commit", null, () -> {
                    consumer.commitSync(Collections.singletonMap(place, new OffsetAndMetadata(at)));
                    return null;
                });
                check("committed", at, () -> consumer.committed(java.util.Set.of(place)).get(place).offset());
                check("end", before + RECORDS, () -> consumer.endOffsets(List.of(place)).get(place));
                check("offsets for times", before, () ->
                    consumer.offsetsForTimes(Map.of(place, began)).get(place).offset());
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Random draw = new Random(1);
        for (int number = 0; number < Integer.parseInt(arguments[4]); number++) {
            Properties settings = settings(arguments, MECHANISMS[number % MECHANISMS.length]);
            check("session", null, () -> {
                session(arguments, settings, draw);
                return null;
            });
        }
        StringBuilder out = new StringBuilder("{\"calls\": {");
        calls.forEach((name, count) -> out.append(out.charAt(out.length() - 1) == '{' ? "" : ", ")
            .append("\"" + name + "\": " + count));
        out.append("}, \"failed\": " + failed + ", \"failures\": [");
        for (int i = 0; i < failures.size(); i++) {
            out.append(i == 0 ? "" : ", ").append("\"" + failures.get(i).replace("\\", "/").replace("\n", " ") + "\"");
        }
        System.out.println(out.append("]}"));
    }
}
