import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;

/** Runs an official example as published: fills in what its reader is to fill in, and starts it. */
final class Example {
    public static void main(String[] arguments) throws Exception {
        Class<?> example = Class.forName(arguments[3]);
        fill(example, "endpoint", arguments[0]);
        fill(example, "secretKeyId", arguments[1]);
        fill(example, "secretKey", arguments[2]);
        try {
            example.getMethod("main", String[].class).invoke(null, (Object) new String[0]);
        } catch (InvocationTargetException error) {
            error.getCause().printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static void fill(Class<?> example, String name, String value) throws Exception {
        Field field = example.getDeclaredField(name);
        field.setAccessible(true);
        field.set(null, value);
    }
}
