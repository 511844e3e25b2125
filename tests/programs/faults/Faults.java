// SPDX-License-Identifier: MIT
// Loads through null: compiled by C1 (-XX:TieredStopAtLevel=1), each is a SIGSEGV, which HotSpot makes a NullPointerException. Ends when
// stdin does.
public class Faults {
    private int value;
    private static volatile boolean ended;

    private static int load(Faults from) {
        try {
            return from.value;
        } catch (NullPointerException e) {
            return 7;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread worker = new Thread(() -> {
            while (!ended)
                for (int i = 0; i < 1000; i++)
                    if (load(null) != 7)
                        Runtime.getRuntime().halt(3);
        });
        worker.start();
        for (int i = 0; i < 20000; i++) // until it is compiled
            load(null);
        System.out.println("ready");
        while (System.in.read() >= 0) {
        }
        ended = true;
        worker.join();
        System.out.println("ended well");
    }
}
