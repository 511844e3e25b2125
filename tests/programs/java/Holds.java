// SPDX-License-Identifier: MIT
// Holds arrays in Java's heap and a direct buffer, which is malloc's; every byte written to: `java Holds MIB DIRECT_MIB`. Makes some
// garbage, says "ready" and waits.
import java.nio.ByteBuffer;
import java.util.Arrays;

public final class Holds {
    private static byte[][] kept;
    private static ByteBuffer direct;
    private static byte[] garbage;

    public static void main(String[] arguments) throws Exception {
        kept = new byte[Integer.parseInt(arguments[0])][];
        for (int i = 0; i < kept.length; i++) {
            kept[i] = new byte[(1 << 20) - 64];
            Arrays.fill(kept[i], (byte) i);
            garbage = Arrays.copyOf(kept[i], 1 << 16);
        }
        direct = ByteBuffer.allocateDirect(Integer.parseInt(arguments[1]) << 20);
        while (direct.hasRemaining()) {
            direct.put((byte) 1);
        }
        System.out.println("ready");
        System.in.read();
    }
}
