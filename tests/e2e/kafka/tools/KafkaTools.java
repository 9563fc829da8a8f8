import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main classes of Kafka's command line tools in one Java machine, as each start costs
 * seconds. Reads a line per run: base64 texts separated by spaces, namely standard input, class,
 * arguments. Writes a line per run: exit status, then standard output and error as base64.
 */
public final class KafkaTools {
    private static final class Ended extends Error {
        Ended() {
            super("", null, false, false);
        }

        // Tools print what they catch.
        @Override
        public void printStackTrace(PrintStream stream) {
        }

        @Override
        public String toString() {
            return "";
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);  // threads that a tool leaves behind may still write
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(run(line.split(" ")));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String[] fields) throws Exception {
        byte[] input = Base64.getDecoder().decode(fields[0].substring(1));
        String[] texts = new String[fields.length - 1];
        for (int i = 1; i < fields.length; i++) {
            texts[i - 1] = new String(Base64.getDecoder().decode(fields[i].substring(1)), StandardCharsets.UTF_8);
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        InputStream oldIn = System.in;
        PrintStream oldOut = System.out, oldErr = System.err;
        System.setIn(new ByteArrayInputStream(input));
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int status;
        try {
            PrintStream console = System.out, errors = System.err;
            status = call(texts[0], Arrays.copyOfRange(texts, 1, texts.length));
            console.flush();
            errors.flush();
        } finally {
            System.setIn(oldIn);
            System.setOut(oldOut);
            System.setErr(oldErr);
        }
        return status + " " + encoded(out) + " " + encoded(err);
    }

    private static int call(String name, String[] arguments) throws Exception {
        AtomicInteger status = new AtomicInteger(-1);
        List<Runnable> hooks = new ArrayList<>();
        Exit.Procedure end = (code, message) -> {
            status.compareAndSet(-1, code);
            if (message != null) {
                System.err.println(message);
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((hook, runnable) -> hooks.add(runnable));
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            status.compareAndSet(-1, 0);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) {
                error.getCause().printStackTrace();
                status.compareAndSet(-1, 1);
            }
        }
        for (Runnable hook : hooks) {
            hook.run();
        }
        return status.get();
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return "=" + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
