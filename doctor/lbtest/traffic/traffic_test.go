package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts a server of run "r", and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Serve(ctx, tcp, udp, Identity{Run: "r", Server: "server-1", Node: "w1"}) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return tcp.Addr().String()
}

func request(protocol, address string) Request {
	return Request{Run: "r", Protocol: protocol, Address: address, Count: 5, Every: 10 * time.Millisecond, Timeout: 10 * time.Second}
}

func TestDo(t *testing.T) {
	address := serve(t)
	for _, protocol := range []string{TCP, UDP} {
		o, err := Do(t.Context(), request(protocol, address))
		if err != nil {
			t.Fatal(err)
		}
		source := Source{Own: "127.0.0.1", Seen: "127.0.0.1"}
		if o.Sent != 5 || o.Lost() != 0 || o.Servers["server-1"] != 5 || len(o.Sources) != 1 || o.Sources[0] != source {
			t.Errorf("%s: got %+v", protocol, o)
		}
		other := request(protocol, address)
		other.Run, other.Timeout = "another", 200*time.Millisecond
		if o, err := Do(t.Context(), other); err != nil || o.Answered != 0 || o.Error == "" {
			t.Errorf("%s: a server of another run answers: %+v %v", protocol, o, err)
		}
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := Do(t.Context(), request(TCP, closed.Addr().String()))
	if err != nil || o.Lost() != 5 || !strings.Contains(o.Error, "refused") {
		t.Errorf("a closed port: %+v %v", o, err)
	}
}

// TestDo_Ended: the caller's end is an error, and no lost request.
func TestDo_Ended(t *testing.T) {
	deaf, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deaf.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	o, err := Do(ctx, request(UDP, deaf.LocalAddr().String()))
	if !errors.Is(err, context.Canceled) || o.Lost() != 0 {
		t.Errorf("got %+v, %v", o, err)
	}
}

// TestOutcome: the longest outage is from the first lost request to the next answered one.
func TestOutcome(t *testing.T) {
	lost := errors.New("no answer")
	start := time.Unix(0, 0)
	var replies []reply
	for i, err := range []error{nil, lost, nil, lost, lost, lost, nil, context.Canceled} {
		replies = append(replies, reply{at: start.Add(time.Duration(i) * time.Second), err: err, answer: Answer{Server: "a"}})
	}
	o := outcome(replies)
	if o.Sent != 7 || o.Answered != 3 || o.Outage != 3*time.Second || o.Error != "no answer" {
		t.Errorf("got %+v", o)
	}
}

func TestAgent(t *testing.T) {
	agent := httptest.NewServer(Agent("r"))
	defer agent.Close()
	address := serve(t)
	for _, test := range []struct {
		name   string
		change func(*Request)
		status int
	}{
		{"as it is", func(*Request) {}, http.StatusOK},
		{"another run", func(r *Request) { r.Run = "another" }, http.StatusForbidden},
		{"no run", func(r *Request) { r.Run = "" }, http.StatusBadRequest},
		{"too many", func(r *Request) { r.Count = MaxCount + 1 }, http.StatusBadRequest},
		{"none", func(r *Request) { r.Count = 0 }, http.StatusBadRequest},
		{"too long", func(r *Request) { r.Timeout = time.Hour }, http.StatusBadRequest},
		{"without pause", func(r *Request) { r.Every = 0 }, http.StatusBadRequest},
		{"another protocol", func(r *Request) { r.Protocol = "unix" }, http.StatusBadRequest},
	} {
		r := request(TCP, address)
		test.change(&r)
		response, err := http.Get(agent.URL + AskPath + "?" + Query(r).Encode())
		if err != nil {
			t.Fatal(err)
		}
		var o Outcome
		decoded := json.NewDecoder(response.Body).Decode(&o)
		_ = response.Body.Close()
		if response.StatusCode != test.status || test.status == http.StatusOK && (decoded != nil || o.Answered != 5) {
			t.Errorf("%s: got %s, %+v, %v", test.name, response.Status, o, decoded)
		}
	}
}
