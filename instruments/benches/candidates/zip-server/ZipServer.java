import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

/**
 * What a Java service does that makes a ZIP of pages as it sends it, with everything left out that could hold it back: the pages are in
 * memory, the connection is a plain socket, and nothing is looked up, checked or logged.
 *
 * <p>Usage: {@code java ZipServer archive.zip}. {@code GET /N} answers with a ZIP of the archive's entries at DEFLATE level N.
 */
public final class ZipServer {
    /** Bytes of a chunk: few, large writes. */
    private static final int CHUNK_BYTES = 256 * 1024;

    private record Page(String name, byte[] text) {}

    private final List<Page> pages = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        ZipServer server = new ZipServer();
        server.load(arguments[0]);
        try (ServerSocket listener = new ServerSocket(Integer.parseInt(arguments[1]), 50, InetAddress.getLoopbackAddress())) {
            System.out.println("Listening on http://127.0.0.1:" + listener.getLocalPort() + "/");
            while (true) {
                Socket socket = listener.accept();
                Thread thread = new Thread(() -> server.serve(socket));
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private void load(String archive) throws IOException {
        try (ZipFile zip = new ZipFile(archive)) {
            for (ZipEntry entry : Collections.list(zip.entries())) {
                try (InputStream in = zip.getInputStream(entry)) {
                    pages.add(new Page(entry.getName(), in.readAllBytes()));
                }
            }
        }
    }

    private void serve(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            InputStream in = new BufferedInputStream(socket.getInputStream());
            OutputStream out = socket.getOutputStream();
            String requestLine;
            while ((requestLine = readHead(in)) != null) {
                int level = Integer.parseInt(requestLine.split(" ")[1].substring(1));
                String head = "HTTP/1.1 200 OK\r\ncontent-type: application/zip\r\ntransfer-encoding: chunked\r\n\r\n";
                out.write(head.getBytes(StandardCharsets.US_ASCII));
                send(level, new BufferedOutputStream(new Chunks(out), CHUNK_BYTES));
                out.write("0\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
            }
        } catch (IOException gone) {
            // The client has what it wanted.
        }
    }

    private void send(int level, OutputStream out) throws IOException {
        ZipOutputStream zip = new ZipOutputStream(out);
        zip.setLevel(level);
        for (Page page : pages) {
            ZipEntry entry = new ZipEntry(page.name());
            entry.setTime(0); // The same bytes each time.
            zip.putNextEntry(entry);
            zip.write(page.text());
            zip.closeEntry();
        }
        zip.finish();
        out.flush();
    }

    /** The first line of a request's head, read to its end; null at the end of the connection. */
    private static String readHead(InputStream in) throws IOException {
        String first = null;
        while (true) {
            StringBuilder line = new StringBuilder();
            int next;
            while ((next = in.read()) != '\n') {
                if (next < 0) {
                    return null;
                }
                line.append((char) next);
            }
            String text = line.toString().strip();
            if (text.isEmpty()) {
                return first;
            }
            first = first == null ? text : first;
        }
    }

    /** Each write is a chunk (RFC 9112, 7.1). */
    private static final class Chunks extends OutputStream {
        private final OutputStream out;

        Chunks(OutputStream out) {
            this.out = out;
        }

        @Override
        public void write(int octet) throws IOException {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            if (length > 0) {
                out.write((Integer.toHexString(length) + "\r\n").getBytes(StandardCharsets.US_ASCII));
                out.write(bytes, from, length);
                out.write("\r\n".getBytes(StandardCharsets.US_ASCII));
            }
        }
    }
}
