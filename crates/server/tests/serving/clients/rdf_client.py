"""Reads resources with rdflib, changes them, and writes them back, in each syntax; says how that was answered."""

import sys
import urllib.error
import urllib.request

from rdflib import DCTERMS, Graph, Literal, URIRef

SYNTAXES = {
    "text/turtle": "turtle",
    "application/ld+json": "json-ld",
    "application/n-triples": "nt",
    "application/rdf+xml": "xml",
}


def ask(method, url, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def put(url, graph, media_type):
    body = graph.serialize(format=SYNTAXES[media_type]).encode("utf-8")
    status, said = ask("PUT", url, body, Content_Type=media_type)
    return str(status) if status < 400 else f"{status} {said.decode('utf-8')}"


def main(base):
    for resource, described in [("graph", "graph"), ("container", "container"), ("bytes", "bytes/fcr:metadata")]:
        url, about = base + described, URIRef(base + resource)
        for media_type, name in SYNTAXES.items():
            _, body = ask("GET", url, Accept=media_type)
            graph = Graph().parse(data=body, format=name)
            graph.add((about, DCTERMS.title, Literal(f"by {name}")))
            print(resource, name, put(url, graph, media_type), put(url, graph, media_type))
        _, body = ask("GET", url, Accept="text/turtle")
        titles = sorted(str(title) for title in Graph().parse(data=body).objects(about, DCTERMS.title))
        print(resource, ", ".join(titles))


main(sys.argv[1])
