import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.http.HttpRequest;
import org.apache.http.client.HttpClient;
import org.apache.http.impl.client.AbstractHttpClient;

/** Counts calls, failures and requests of several threads, and prints them as one JSON object. */
final class Calls {
    private static final int SHOWN_MAX = 20;
    private static final int MD5_DIGITS = 32;

    private final Map<String, AtomicLong> counts = new ConcurrentSkipListMap<>();
    private final List<String> failures = new ArrayList<>(); // the first ones; guarded by itself
    private final AtomicLong failed = new AtomicLong();
    private final AtomicLong requests = new AtomicLong();
    private final AtomicLong shortDigests = new AtomicLong();

    /** Ends what a thread does; it is counted already. */
    private static final class Failed extends RuntimeException {
        Failed(String text) {
            super(text);
        }
    }

    interface Call<T> {
        T run() throws Exception;
    }

    interface Step {
        void run() throws Exception;
    }

    interface Work {
        void run(int thread) throws Exception;
    }

    /** Make one call; a failure is counted, and ends what this thread does. */
    <T> T get(String name, Call<T> call) {
        counts.computeIfAbsent(name, key -> new AtomicLong()).incrementAndGet();
        try {
            return call.run();
        } catch (Exception error) {
            throw fail(name + ": " + error);
        }
    }

    void run(String name, Step call) {
        get(name, () -> {
            call.run();
            return null;
        });
    }

    /** Make a call that the server must refuse with this text in the error. */
    void refused(String name, String text, Step call) {
        counts.computeIfAbsent(name, key -> new AtomicLong()).incrementAndGet();
        try {
            call.run();
        } catch (Exception error) {
            check(String.valueOf(error).contains(text), name + " was refused with " + error);
            return;
        }
        throw fail(name + " was not refused");
    }

    void check(boolean right, String what) {
        if (!right) {
            throw fail("wrong: " + what);
        }
    }

    void same(Object found, Object wanted, String what) {
        if (!wanted.equals(found)) {
            throw fail("wrong: " + what + " is " + found + ", not " + wanted);
        }
    }

    private Failed fail(String text) {
        failed.incrementAndGet();
        synchronized (failures) {
            if (failures.size() < SHOWN_MAX) {
                failures.add(text);
            }
        }
        return new Failed(text);
    }

    /** Count the requests of a client of one of the SDKs, and those whose digest is short. */
    HttpClient watched(HttpClient client) {
        ((AbstractHttpClient) client).addRequestInterceptor((request, context) -> saw(request));
        return client;
    }

    private void saw(HttpRequest request) {
        requests.incrementAndGet();
        String digest = request.getFirstHeader("X-Xiaomi-Content-MD5").getValue();
        if (digest.length() < MD5_DIGITS) {
            shortDigests.incrementAndGet();
        }
    }

    /** Run work in so many threads at once, to its end. */
    void inThreads(int threads, Work work) throws InterruptedException {
        CountDownLatch done = new CountDownLatch(threads);
        AtomicInteger number = new AtomicInteger();
        for (int started = 0; started < threads; started++) {
            new Thread(() -> {
                try {
                    work.run(number.getAndIncrement());
                } catch (Throwable error) {
                    if (!(error instanceof Failed)) {
                        error.printStackTrace();
                        fail("thread: " + error);
                    }
                } finally {
                    done.countDown();
                }
            }).start();
        }
        done.await();
    }

    void print() {
        StringBuilder text = new StringBuilder("{\"calls\": {");
        String separator = "";
        for (Map.Entry<String, AtomicLong> entry : counts.entrySet()) {
            text.append(separator).append(quoted(entry.getKey())).append(": ");
            text.append(entry.getValue());
            separator = ", ";
        }
        text.append("}, \"failed\": ").append(failed).append(", \"requests\": ").append(requests);
        text.append(", \"short_digests\": ").append(shortDigests).append(", \"failures\": [");
        separator = "";
        synchronized (failures) {
            for (String failure : failures) {
                text.append(separator).append(quoted(failure));
                separator = ", ";
            }
        }
        System.out.println(text.append("]}"));
        System.out.flush();
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                out.append('\\').append(letter);
            } else if (letter < ' ' || letter > '~') {
                out.append(String.format("\\u%04x", (int) letter));
            } else {
                out.append(letter);
            }
        }
        return out.append('"').toString();
    }
}
