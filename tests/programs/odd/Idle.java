// SPDX-License-Identifier: MIT
// Fills a heap that is Java's own, says "ready", and waits in a few threads.
public class Idle {
    public static void main(String[] arguments) throws Exception {
        byte[][] kept = new byte[1000][];
        for (int i = 0; i < kept.length; i++)
            kept[i] = new byte[10000];
        for (int i = 0; i < 4; i++) {
            Thread thread = new Thread(Idle::pause);
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        pause();
        System.out.println(kept.length);
    }

    private static void pause() {
        try {
            Thread.sleep(1000000);
        } catch (InterruptedException ignored) {
        }
    }
}
