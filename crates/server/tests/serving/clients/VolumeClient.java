import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;

/**
 * Asks for volumes as the field's Scala client does: a POST whose ids are joined with a literal bar, with a bearer token of
 * another maker, read with a streaming reader; a volume begins at its directory entry.
 */
public class VolumeClient {
    private static final Pattern PAGE = Pattern.compile("[^/]+/\\D*(\\d+)\\.txt");

    public static void main(String[] arguments) throws Exception {
        String base = arguments[0];
        String ids = Arrays.stream(arguments).skip(1)
            .map(id -> URLEncoder.encode(id, StandardCharsets.UTF_8)).collect(Collectors.joining("|"));
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + "/volumes"))
            .header("Authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.of.others")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .POST(HttpRequest.BodyPublishers.ofString("volumeIDs=" + ids)).build();
        HttpResponse<InputStream> response =
            HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofInputStream());
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        out.println(response.statusCode() + " " + response.headers().firstValue("Content-Type").orElse(""));
        try (ZipInputStream zip = new ZipInputStream(response.body(), StandardCharsets.UTF_8)) {
            String volume = null;
            for (ZipEntry entry = zip.getNextEntry(); entry != null; entry = zip.getNextEntry()) {
                String name = entry.getName();
                Matcher page = PAGE.matcher(name);
                if (entry.isDirectory()) {
                    volume = name;
                    out.println("volume " + volume);
                } else if (name.equalsIgnoreCase("ERROR.err")) {
                    out.print(new String(zip.readAllBytes(), StandardCharsets.UTF_8));
                } else if (volume != null && name.startsWith(volume) && page.matches()) {
                    out.println("page " + Integer.parseInt(page.group(1)) + " " + crc32(zip));
                } else {
                    throw new IOException(name + " belongs to no volume");
                }
            }
        }
    }

    private static String crc32(InputStream in) throws IOException {
        CRC32 crc = new CRC32();
        crc.update(in.readAllBytes());
        return String.format("%08x", crc.getValue());
    }
}
