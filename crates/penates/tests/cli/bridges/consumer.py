import json, os, sys

def printed(headers, body):
    known = {name: value for name, value in headers.items() if name.startswith("org.fcrepo.jms.")}
    print(json.dumps({"headers": known, "body": json.loads(body)}), flush=True)
    return known.get("org.fcrepo.jms.identifier")

def stomp(port, user, password, last):
    import stomp, threading
    done = threading.Event()
    class Listener(stomp.ConnectionListener):
        def on_message(self, frame):
            identifier = printed(frame.headers, frame.body)
            connection.ack(frame.headers["ack"])
            if identifier == last:
                done.set()
        def on_error(self, frame):
            sys.exit(frame.body)
        def on_receipt(self, frame):
            if not last:
                done.set()
    connection = stomp.Connection12([("127.0.0.1", int(port))])
    connection.set_listener("", Listener())
    connection.connect(user, password, wait=True, headers={"client-id": "consumer"})
    # A durable subscription of ActiveMQ.
    more = {"activemq.subscriptionName": "consumer", "receipt": "subscribed"}
    connection.subscribe("/topic/fedora", id="1", ack="client-individual", headers=more)
    done.wait(60) or sys.exit("the last message did not come")
    connection.disconnect()

def amqp(port, user, password, last):
    from proton.utils import BlockingConnection
    connection = BlockingConnection(f"amqp://127.0.0.1:{port}", user=user, password=password,
                                    allowed_mechs="PLAIN", allow_insecure_mechs=True, timeout=60)
    receiver = connection.create_receiver("queue://fedora.test", credit=10)
    while True:
        message = receiver.receive(timeout=60)
        properties = dict(message.properties)
        assert message.durable and isinstance(properties["org.fcrepo.jms.timestamp"], int), properties
        properties = {name: str(value) for name, value in properties.items()}
        identifier = printed(properties, message.body)
        receiver.accept()
        if identifier == last:
            return connection.close()

{"stomp": stomp, "amqp": amqp}[sys.argv[1]](sys.argv[2], "penates", "correct-horse", sys.argv[3])
