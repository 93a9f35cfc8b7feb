import java.net.http.HttpClient;
import java.net.http.HttpRequest.BodyPublishers;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.jena.atlas.web.HttpException;
import org.apache.jena.http.HttpEnv;
import org.apache.jena.http.HttpOp;
import org.apache.jena.http.HttpRDF;
import org.apache.jena.http.auth.AuthEnv;
import org.apache.jena.http.auth.AuthLib;
import org.apache.jena.rdf.model.Model;
import org.apache.jena.rdf.model.ModelFactory;
import org.apache.jena.rdfconnection.RDFConnection;
import org.apache.jena.rdfconnection.RDFConnectionRemote;
import org.apache.jena.riot.RDFFormat;
import org.apache.jena.riot.RDFParser;
import org.apache.jena.sparql.exec.http.GSP;
import org.apache.jena.sparql.exec.http.UpdateExecHTTPBuilder;
import org.apache.jena.update.UpdateFactory;
import org.apache.jena.vocabulary.DCTerms;

/** Uses a repository with Apache Jena. Says what it did, and what came of it. */
public class JenaClient {
    static final String LDP = "http://www.w3.org/ns/ldp#";

    final String root;
    final String token;

    JenaClient(String root, String token) {
        this.root = root;
        this.token = token;
        // The server asks for a token or a password. Where it asks for a token, Jena sends only that.
        AuthEnv.get().setBearerTokenProvider((address, challenge) -> token);
    }

    public static void main(String[] arguments) throws Exception {
        org.apache.jena.sys.JenaSystem.init();
        JenaClient it = new JenaClient(arguments[1], arguments[2]);
        switch (arguments[0]) {
            case "syntaxes" -> it.syntaxes();
            case "changes" -> it.changes();
            case "graph-stores" -> it.graphStores();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    interface Doing {
        Object come() throws Exception;
    }

    /** Says what came of something, or the status of the refusal. */
    static void say(String what, Doing doing) throws Exception {
        try {
            System.out.println(what + ": " + doing.come());
        } catch (HttpException refused) {
            System.out.println(what + ": " + refused.getStatusCode());
        }
    }

    static void say(String what, Runnable doing) throws Exception {
        say(what, () -> {
            doing.run();
            return "done";
        });
    }

    static Model titled(String about, String title) {
        Model model = ModelFactory.createDefaultModel();
        model.createResource(about).addProperty(DCTerms.title, title);
        return model;
    }

    static List<String> values(Model model, String about, String property) {
        var statements = model.listStatements(model.createResource(about), model.createProperty(property),
            (org.apache.jena.rdf.model.RDFNode) null);
        return statements.mapWith(statement -> statement.getObject().toString()).toList().stream().sorted().toList();
    }

    static List<String> titles(String address) {
        return values(RDFParser.source(address).toModel(), address, DCTerms.title.getURI());
    }

    void syntaxes() throws Exception {
        HttpClient http = HttpEnv.getDftHttpClient();
        String graph = root + "graph";
        String box = root + "box";
        HttpRDF.httpPutGraph(graph, titled(graph, "by nobody").getGraph());
        HttpRDF.httpPutGraph(box, titled(box, "by nobody").getGraph());
        HttpRDF.httpPutGraph(box + "/child", titled("", "child").getGraph());
        HttpOp.httpPut(root + "bytes", "text/plain", BodyPublishers.ofString("hello"));
        String[][] resources = {{graph, graph}, {box, box}, {root + "bytes", root + "bytes/fcr:metadata"}};
        var formats = List.of(RDFFormat.TURTLE_PRETTY, RDFFormat.NTRIPLES, RDFFormat.JSONLD, RDFFormat.RDFXML);
        for (String[] resource : resources) {
            for (RDFFormat format : formats) {
                String name = format.getLang().getName();
                say(resource[0] + " " + name, () -> {
                    var read = HttpRDF.httpGetGraph(resource[1], format.getLang().getHeaderString());
                    Model model = ModelFactory.createModelForGraph(read);
                    model.createResource(resource[0]).addProperty(DCTerms.title, "by " + name);
                    HttpRDF.httpPutGraph(http, resource[1], read, format);
                    return "done";
                });
            }
            Model read = RDFParser.source(resource[1]).toModel();
            say(resource[0], () -> values(read, resource[0], DCTerms.title.getURI()));
        }
        say("a syntax that the server lacks", () -> HttpRDF.httpGetGraph(graph, "application/rdf+thrift").size());
    }

    void changes() throws Exception {
        String box = root + "box";
        say("put", () -> HttpRDF.httpPutGraph(box, titled(box, "Box").getGraph()));
        String update = UpdateFactory.create("PREFIX dcterms: <" + DCTerms.NS + "> DELETE { ?it dcterms:title ?old } "
            + "INSERT { ?it dcterms:title ?new } WHERE { ?it dcterms:title ?old BIND(CONCAT(?old, 'es') AS ?new) }")
            .toString();
        say("patch", () -> HttpOp.httpPatch(box, "application/sparql-update", BodyPublishers.ofString(update)));
        say("titles", () -> titles(box));
        say("post", () -> HttpRDF.httpPostGraph(box, titled("", "Child").getGraph()));
        List<String> children = values(RDFParser.source(box).toModel(), box, LDP + "contains");
        say("children", () -> children.size() + ", " + titles(children.get(0)));

        // Jena shows no entity tag, but sends whatever header it is told to.
        HttpClient http = HttpEnv.getDftHttpClient();
        say("put under a condition that does not hold", () -> HttpRDF.httpPutGraph(http, box,
            titled(box, "Lost").getGraph(), RDFFormat.TURTLE, new HashMap<>(Map.of("If-Match", "\"another\""))));
        say("put under a condition that holds", () -> HttpRDF.httpPutGraph(http, box,
            titled(box, "Kept").getGraph(), RDFFormat.TURTLE, new HashMap<>(Map.of("If-Match", "*"))));
        say("titles", () -> titles(box));

        say("head", () -> HttpOp.httpHead(box));
        say("options", () -> HttpOp.httpOptions(box));
        say("delete", () -> HttpRDF.httpDeleteGraph(box));
        say("get", () -> titles(box));

        AuthEnv.get().clearAuthEnv();
        AuthEnv.get().setBearerTokenProvider(null);
        say("put without a token", () -> HttpRDF.httpPutGraph(root + "other", titled("", "Other").getGraph()));
        // Java's own client answers to the request for a password.
        var password = AuthLib.authenticator("librarian", token);
        HttpEnv.setDftHttpClient(HttpClient.newBuilder().authenticator(password).build());
        say("put with a password", () -> HttpRDF.httpPutGraph(root + "other", titled("", "Other").getGraph()));
    }

    void graphStores() throws Exception {
        String box = root + "box";
        String child = box + "/child";
        HttpRDF.httpPutGraph(box, titled(box, "Box").getGraph());
        HttpRDF.httpPutGraph(child, titled(child, "Child").getGraph());
        try (RDFConnection connection = RDFConnectionRemote.newBuilder().destination(box).build()) {
            say("fetch", () -> values(connection.fetch(), box, DCTerms.title.getURI()));
            say("put", () -> connection.put(titled(box, "Changed")));
            say("titles", () -> titles(box));
            say("fetch another graph", () -> connection.fetch(child).size());
            say("put another graph", () -> connection.put(child, titled(child, "Lost")));
            say("load another graph", () -> connection.load(child, titled(child, "Lost")));
            say("delete another graph", () -> connection.delete(child));
            say("delete a graph of another server", () -> connection.delete("http://example.org/box"));
        }
        say("its own graph", () -> GSP.service(box).graphName(box).GET().isEmpty());
        say("titles", () -> titles(box) + " " + titles(child));
        say("children", () -> values(RDFParser.source(box).toModel(), box, LDP + "contains"));
        // An update is a PATCH here. What is posted to a container becomes a file in it.
        say("update by post", () -> UpdateExecHTTPBuilder.create().endpoint(box)
            .update("INSERT DATA { <" + box + "> <" + DCTerms.title + "> 'posted' }").execute());
        say("titles", () -> titles(box));
        say("children", () -> values(RDFParser.source(box).toModel(), box, LDP + "contains").size());
    }
}
