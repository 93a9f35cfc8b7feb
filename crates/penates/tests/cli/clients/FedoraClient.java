import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.regex.Pattern;

import org.fcrepo.client.FcrepoClient;
import org.fcrepo.client.FcrepoLink;
import org.fcrepo.client.FcrepoOperationFailedException;
import org.fcrepo.client.FcrepoResponse;

/** Uses a repository with fcrepo-java-client. Says what it did, and what came of it. */
public class FedoraClient {
    static final String LDP = "http://www.w3.org/ns/ldp#";
    static final String FEDORA = "http://fedora.info/definitions/v4/repository#";
    static final String TITLE = "http://purl.org/dc/terms/title";
    static final String HELLO_SHA1 = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d";
    static final String HELLO_MD5 = "5d41402abc4b2a76b9719d911017c592";
    static final String HELLO_SHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    final URI root;
    final String token;
    /** It logs in as Fedora's users do: with a name and a password, which is the token. */
    final FcrepoClient client;

    FedoraClient(String root, String token) {
        this.root = URI.create(root);
        this.token = token;
        client = FcrepoClient.client().credentials("librarian", token).build();
    }

    public static void main(String[] arguments) throws Exception {
        FedoraClient it = new FedoraClient(arguments[1], arguments[2]);
        switch (arguments[0]) {
            case "resources" -> it.resources();
            case "bytes" -> it.bytes();
            case "versions" -> it.versions();
            case "transactions" -> it.transactions();
            case "refused" -> it.refused();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static InputStream text(String text) {
        return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
    }

    static InputStream title(String title) {
        return text("<> <" + TITLE + "> \"" + title + "\" .");
    }

    static URI below(URI address, String name) {
        return URI.create(address + "/" + name);
    }

    static String body(FcrepoResponse response) throws Exception {
        try (response) {
            return new String(response.getBody().readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    static void say(String what, Object came) {
        System.out.println(what + ": " + came);
    }

    static FcrepoResponse say(String what, FcrepoResponse response) throws Exception {
        say(what, response.getStatusCode());
        return whole(response);
    }

    /** The response with its body in memory: the client has few connections, and one would be held. */
    static FcrepoResponse whole(FcrepoResponse response) throws Exception {
        if (response.getBody() != null) {
            byte[] body = response.getBody().readAllBytes();
            response.getBody().close();
            response.setBody(new ByteArrayInputStream(body));
        }
        return response;
    }

    /** The titles in a graph of N-Triples, and how many statements of containment it has. */
    static String found(String triples) {
        var titles = Pattern.compile("<" + TITLE + "> \"([^\"]*)\"").matcher(triples).results();
        long contained = Pattern.compile("<" + LDP + "contains>").matcher(triples).results().count();
        return titles.map(title -> title.group(1)).sorted().toList() + ", contains " + contained;
    }

    String read(URI address) throws Exception {
        return found(body(client.get(address).accept("application/n-triples").perform()));
    }

    void resources() throws Exception {
        var made = client.post(root).slug("letters").addInteractionModel(LDP + "BasicContainer").perform();
        URI letters = say("post", made).getLocation();
        say("location", letters);
        say("put", client.put(letters).body(title("Letters"), "text/turtle").perform());
        URI draft = below(letters, "draft");
        var direct = client.put(below(letters, "direct")).addInteractionModel(LDP + "DirectContainer");
        String membership = "<> <" + LDP + "membershipResource> <" + letters + "> ; <" + LDP
            + "hasMemberRelation> <http://purl.org/dc/terms/hasPart> .";
        say("put a direct container", direct.body(text(membership), "text/turtle").perform());
        say("put a child", client.put(draft).body(title("Draft"), "text/turtle").perform());
        say("patch", client.patch(letters).body(text("INSERT DATA { <> <" + TITLE + "> \"Briefe\" }")).perform());
        say("read", read(letters));

        var head = say("head", client.head(letters).perform());
        say("types", head.hasType(LDP + "BasicContainer") && head.hasType(LDP + "RDFSource"));
        String tag = head.getHeaderValue("ETag");
        var known = whole(client.get(letters).accept("text/turtle").perform()).getHeaderValue("ETag");
        say("get what is known", client.get(letters).accept("text/turtle").ifNoneMatch(known).perform());
        say("put under a condition", client.put(letters).body(title("Now"), "text/turtle").ifMatch(tag).perform());
        say("put of what was read before",
            client.put(letters).body(title("Old"), "text/turtle").ifMatch(tag).perform());
        say("read", read(letters));

        var minimal = client.get(letters).accept("application/n-triples").preferRepresentation(
            List.of(URI.create(LDP + "PreferMinimalContainer")),
            List.of(URI.create(FEDORA + "ServerManaged"))).perform();
        say("applied", minimal.getHeaderValue("Preference-Applied"));
        String preferred = body(minimal);
        say("minimal", found(preferred) + ", managed " + preferred.contains(FEDORA));

        // What was read, with the statements of the server, is sent back with a change.
        String whole = body(client.get(draft).accept("application/n-triples").perform());
        var back = client.put(draft).body(text(whole.replace("Draft", "Final")), "application/n-triples");
        say("put what was read, changed", back.preferLenient().perform());
        say("read", read(draft));

        var options = say("options", client.options(letters).perform());
        say("allow", options.getHeaderValue("Allow"));
        say("accept-patch", options.getHeaderValue("Accept-Patch"));

        say("delete", client.delete(letters).perform());
        say("get what was in it", client.get(draft).perform());
        say("tombstone", say("get", client.get(letters).perform()).getLinkHeaders("hasTombstone"));
        say("put", client.put(letters).body(title("Again"), "text/turtle").perform());
        say("delete the tombstone", client.delete(below(letters, "fcr:tombstone")).perform());
        say("get", client.get(letters).perform());
        say("put", client.put(letters).body(title("Again"), "text/turtle").perform());
        say("read", read(letters));
    }

    void bytes() throws Exception {
        var container = client.put(URI.create(root + "box")).addInteractionModel(LDP + "BasicContainer");
        URI box = container.perform().getLocation();
        var post = client.post(box).slug("hello").body(text("hello"), "text/plain").filename("hello.txt");
        var made = say("post", post.digestMd5(HELLO_MD5).digestSha1(HELLO_SHA1).digestSha256(HELLO_SHA256).perform());
        URI hello = below(box, "hello");
        say("location", made.getLocation());
        var got = say("get", client.get(hello).wantDigest("md5, sha-256;q=0.5").perform());
        say("type", got.getContentType() + ", " + got.hasType(LDP + "NonRDFSource"));
        say("name", got.getContentDisposition().get("filename"));
        say("digest", got.getHeaderValue("Digest"));
        say("body", body(got));
        var range = say("range", client.get(hello).range(1L, 3L).perform());
        say("body", range.getHeaderValue("Content-Range") + " " + body(range));
        say("range beyond the end", client.get(hello).range(9L, 12L).perform());
        say("head", client.head(hello).wantDigest("sha").perform().getHeaderValue("Digest"));
        say("put of other bytes than the digest's",
            client.put(hello).body(text("other"), "text/plain").digestSha1(HELLO_SHA1).perform());
        say("body", body(client.get(hello).perform()));
        say("put", client.put(hello).body(text("other"), "text/csv").perform());
        say("body", body(client.get(hello).perform()));

        // The client shows the address of the description of what it got.
        URI description = got.getLocation();
        say("description", description);
        String update = "INSERT DATA { <" + hello + "> <" + TITLE + "> \"Hello\" }";
        say("patch the description", client.patch(description).body(text(update)).perform());
        say("read", read(description));
        say("patch the bytes", client.patch(hello).body(text("INSERT DATA { <> <" + TITLE + "> \"no\" }")).perform());

        // More than what a connection takes at once, after which the password is asked for.
        byte[] large = new byte[8 << 20];
        new java.util.Random(1).nextBytes(large);
        var sent = client.put(below(box, "large")).body(new ByteArrayInputStream(large), "application/octet-stream");
        say("put 8 MiB", sent.perform());
        try (var back = client.get(below(box, "large")).perform()) {
            say("the same 8 MiB", java.util.Arrays.equals(large, back.getBody().readAllBytes()));
        }
        say("delete", client.delete(hello).perform());
        say("get the description", client.get(description).perform());
    }

    void versions() throws Exception {
        URI draft = client.put(URI.create(root + "draft")).body(title("First"), "text/turtle").perform().getLocation();
        URI versions = below(draft, "fcr:versions");
        var first = say("create a memento", client.createMemento(versions).perform());
        say("it is one", first.getLocation().toString().startsWith(versions + "/"));
        say("patch", client.patch(draft).body(text("INSERT DATA { <> <" + TITLE + "> \"Second\" }")).perform());
        say("draft", read(draft));
        say("memento", read(first.getLocation()));
        var head = client.head(first.getLocation()).perform();
        say("it has a time", head.getHeaderValue("Memento-Datetime") != null);
        say("it is of", head.getLinkHeaders("original"));

        String map = body(client.get(versions).accept("application/link-format").perform());
        long mementos = FcrepoLink.fromHeader(map.replace("\n", "")).stream()
            .filter(link -> link.getRel().contains("memento")).count();
        say("mementos", mementos);
        var now = client.head(draft).acceptDatetime(Instant.now().plusSeconds(3600)).disableRedirects().perform();
        say("as of later", now.getStatusCode() + ", " + now.getLocation().toString().startsWith(versions + "/"));
        var followed = client.get(draft).acceptDatetime(Instant.now().plusSeconds(3600))
            .accept("application/n-triples");
        say("as of later, followed", found(body(followed.perform())));
        say("timegate", client.head(draft).perform().getLinkHeaders("timegate"));
        say("put a memento", client.put(first.getLocation()).body(title("No"), "text/turtle").perform());
        say("delete a memento", client.delete(first.getLocation()).perform());
        say("create a memento of the past", client.createMemento(versions, Instant.parse("2001-01-01T00:00:00Z"))
            .body(title("Past"), "text/turtle").perform());
    }

    /** The client knows no transactions, but sends headers. */
    void transactions() throws Exception {
        URI all = URI.create(root + "fcr:tx");
        var begun = say("begin", client.post(all).perform());
        String id = begun.getLocation().toString();
        URI one = URI.create(root + "one");
        say("put in it", client.put(one).body(title("One"), "text/turtle").addHeader("Atomic-ID", id).perform());
        say("get in it", client.get(one).addHeader("Atomic-ID", id).perform());
        say("get", client.get(one).perform());
        say("is open", client.get(begun.getLocation()).perform());
        say("commit", client.put(begun.getLocation()).perform());
        say("get", client.get(one).perform());
        say("is over", client.get(begun.getLocation()).perform());

        var other = client.post(all).perform().getLocation();
        say("delete in another", client.delete(one).addHeader("Atomic-ID", other.toString()).perform());
        say("roll back", client.delete(other).perform());
        say("get", client.get(one).perform());
        say("put in one that is over",
            client.put(one).body(title("Two"), "text/turtle").addHeader("Atomic-ID", other.toString()).perform());
    }

    void refused() throws Exception {
        URI one = client.put(URI.create(root + "one")).body(title("One"), "text/turtle").perform().getLocation();
        try (var stranger = FcrepoClient.client().throwExceptionOnFailure().build()) {
            stranger.put(one).body(title("Two"), "text/turtle").perform();
        } catch (FcrepoOperationFailedException refused) {
            say("put without a password", refused.getStatusCode());
        }
        try (var bearer = FcrepoClient.client().build()) {
            var put = bearer.put(one).body(title("Three"), "text/turtle");
            say("put with a header", put.addHeader("Authorization", "Bearer " + token).perform());
        }
        say("read", read(one));
        say("a list of access rules", client.put(one).body(title("Four"), "text/turtle")
            .linkAcl("http://example.org/acl").perform());
        say("content stored elsewhere", client.post(root).externalContent(URI.create("http://example.org/scan"),
            "text/plain", "proxy").perform());
        say("a state token", client.put(one).body(title("Five"), "text/turtle").ifStateToken("some").perform());
        say("a state token of nothing", client.put(URI.create(root + "two")).ifStateToken("some").perform());
        say("read", read(one));
    }
}
