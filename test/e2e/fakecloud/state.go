package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

// State is the content of the file.
type State struct {
	// Region is that of all machines.
	Region string `json:"region"`
	// Key is the access key or secret that a client has to present.
	Key string `json:"key"`
	// Denied makes every call that needs a permission fail, as after a change of a policy.
	Denied bool `json:"denied"`
	// Machines are all there are.
	Machines []Machine `json:"machines"`
}

// Machine is an instance of EC2 or a server of Nova, in the terms of EC2.
type Machine struct {
	ID      string `json:"id"`
	Name    string `json:"name"` // private DNS name, or server name
	Address string `json:"address"`
	Zone    string `json:"zone"`
	Type    string `json:"type"`
	State   string `json:"state"` // pending, running, stopped, terminated
	Cluster string `json:"cluster"`
}

// cloud is the server's side of it.
type cloud struct {
	file     string
	requests *log.Logger
}

// now reads the file. A cloud whose state cannot be read answers 500: no client may conclude anything from that.
func (c *cloud) now(w http.ResponseWriter) (State, bool) {
	var s State
	data, err := os.ReadFile(c.file)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("read state: %v", err), http.StatusInternalServerError)
		return s, false
	}
	return s, true
}

// caller is the machine from which a request comes, which is how metadata services know whom they talk to.
func (s State) caller(r *http.Request) (Machine, bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return Machine{}, false
	}
	for _, m := range s.Machines {
		if m.Address == host {
			return m, true
		}
	}
	return Machine{}, false
}
