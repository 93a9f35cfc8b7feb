import java.io.*;
import java.util.*;
import java.util.zip.*;

/** Reads each archive named on the command line with both of Java's readers, and prints an entry a line. */
public class ReadZips {
    public static void main(String[] paths) throws IOException {
        for (String path : paths) {
            try (ZipFile zip = new ZipFile(path)) {
                for (ZipEntry entry : Collections.list(zip.entries())) {
                    print("ZipFile", path, entry, zip.getInputStream(entry));
                }
            }
            try (ZipInputStream zip = new ZipInputStream(new BufferedInputStream(new FileInputStream(path)))) {
                for (ZipEntry entry = zip.getNextEntry(); entry != null; entry = zip.getNextEntry()) {
                    print("ZipInputStream", path, entry, zip);
                }
            }
        }
    }

    private static void print(String reader, String path, ZipEntry entry, InputStream in) throws IOException {
        CRC32 crc = new CRC32();
        long size = 0;
        byte[] buffer = new byte[65536];
        for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
            crc.update(buffer, 0, read);
            size += read;
        }
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        out.printf("%s\t%s\t%s\t%d\t%08x%n", reader, path, entry.getName(), size, crc.getValue());
    }
}
