// Package traffic is the two ends of a test connection to a load balancer: a server that answers who it is and which client
// it sees, and a client that counts answers.
//
// Start at [Do], which sends; [Serve] answers; [Agent] has [Do] done for a program elsewhere.
//
// Reads and writes: sockets only. Answers of other servers do not count: each request and each answer carries the ID of the run.
// It will not: send more than [MaxCount] requests at once, or to any address for a caller that does not know the run.
package traffic

import (
	"errors"
	"fmt"
	"time"
)

// Protocols of requests.
const (
	TCP = "TCP"
	UDP = "UDP"
)

// Limits of one Request.
const (
	MaxCount   = 2000
	MaxTimeout = 10 * time.Second
	MaxEvery   = time.Second
)

// Answer is what a server sends.
type Answer struct {
	// Run is that of its [Identity], Nonce that of the request.
	Run   string `json:"run"`
	Nonce string `json:"nonce"`
	// Server and Node are the pod, and where it runs.
	Server string `json:"server"`
	Node   string `json:"node"`
	// Client is the IP address that the request came from, as the server sees it.
	Client string `json:"client"`
}

// Request is what a client is to send.
type Request struct {
	// Run is the ID that an answer has to have.
	Run string `json:"run"`
	// Protocol is TCP or UDP. By TCP it is HTTP, with a connection for each request.
	Protocol string `json:"protocol"`
	// Address is HOST:PORT.
	Address string `json:"address"`
	// Count is how many requests, Every the time between their beginnings, Timeout how long each may take.
	Count   int           `json:"count"`
	Every   time.Duration `json:"every"`
	Timeout time.Duration `json:"timeout"`
}

// check refuses what [Do] would not do.
func (r *Request) check() error {
	switch {
	case r.Protocol != TCP && r.Protocol != UDP:
		return fmt.Errorf("read the request: protocol %q is neither TCP nor UDP", r.Protocol)
	case r.Count < 1 || r.Count > MaxCount:
		return fmt.Errorf("read the request: %d is no number from 1 to %d", r.Count, MaxCount)
	case r.Timeout <= 0 || r.Timeout > MaxTimeout:
		return fmt.Errorf("read the request: timeout %s is not between 0 and %s", r.Timeout, MaxTimeout)
	case r.Every <= 0 || r.Every > MaxEvery:
		return fmt.Errorf("read the request: interval %s is not between 0 and %s", r.Every, MaxEvery)
	case r.Run == "":
		return errors.New("read the request: it names no run")
	}
	return nil
}

// Source is an address of the client, and what the server saw in its place.
type Source struct {
	Own  string `json:"own"`
	Seen string `json:"seen"`
}

// Outcome is what became of a Request.
type Outcome struct {
	// Sent and Answered count requests. Those of an interrupted run are in neither.
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
	// Servers counts answers by the pod.
	Servers map[string]int `json:"servers,omitempty"`
	// Sources are all pairs that occurred.
	Sources []Source `json:"sources,omitempty"`
	// Outage is the longest time from the beginning of the first of consecutive lost requests to that of the next answered one, or
	// to the last request.
	Outage time.Duration `json:"outage,omitempty"`
	// Error is why the last lost request was not answered.
	Error string `json:"error,omitempty"`
}

// Lost is how many requests were not answered.
func (o *Outcome) Lost() int { return o.Sent - o.Answered }
