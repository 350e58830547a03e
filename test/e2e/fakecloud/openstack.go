package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// handleOpenStack serves Keystone, Nova and Neutron below paths of their own, as a small installation does.
func (c *cloud) handleOpenStack(mux *http.ServeMux) {
	mux.HandleFunc("GET /identity/{$}", identityVersions)
	mux.HandleFunc("GET /identity/v3/{$}", identityVersions)
	mux.HandleFunc("POST /identity/v3/auth/tokens", c.serveToken)
	mux.HandleFunc("GET /compute/v2.1/servers/detail", c.withToken(serveServers))
	mux.HandleFunc("GET /compute/v2.1/servers/{id}", c.withToken(serveServer))
	mux.HandleFunc("GET /network/{$}", networkVersions)
	mux.HandleFunc("GET /network/v2.0/{what}", c.withToken(serveNetwork))
}

type object = map[string]any

func identityVersions(w http.ResponseWriter, r *http.Request) {
	self := "http://" + r.Host + "/identity/v3/"
	version := object{"id": "v3.14", "status": "stable", "links": []object{{"rel": "self", "href": self}}}
	reply(w, http.StatusOK, object{"versions": object{"values": []object{version}}, "version": version})
}

func networkVersions(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, object{"versions": []object{{"id": "v2.0", "status": "CURRENT"}}})
}

// serveToken logs in whoever knows the key, and says where the services are.
func (c *cloud) serveToken(w http.ResponseWriter, r *http.Request) {
	s, ok := c.now(w)
	if !ok {
		return
	}
	body, err := io.ReadAll(r.Body)
	c.requests.Printf("openstack login")
	if err != nil || !strings.Contains(string(body), `"`+s.Key+`"`) {
		fail(w, http.StatusUnauthorized, "The request you have made requires authentication.")
		return
	}
	service := func(kind, path string) object {
		url := "http://" + r.Host + path
		return object{"type": kind, "name": kind, "id": kind, "endpoints": []object{
			{"interface": "public", "region": s.Region, "region_id": s.Region, "url": url, "id": kind},
		}}
	}
	w.Header().Set("X-Subject-Token", s.Key)
	reply(w, http.StatusCreated, object{"token": object{
		"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
		"issued_at":  time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		"methods":    []string{"application_credential"},
		"catalog":    []object{service("identity", "/identity/v3/"), service("compute", "/compute/v2.1/"), service("network", "/network/")},
	}})
}

// withToken lets only those in who have logged in, and nobody while the cloud refuses.
func (c *cloud) withToken(serve func(http.ResponseWriter, *http.Request, State)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, ok := c.now(w)
		if !ok {
			return
		}
		c.requests.Printf("openstack %s", r.URL)
		switch {
		case r.Header.Get("X-Auth-Token") != s.Key:
			fail(w, http.StatusUnauthorized, "The request you have made requires authentication.")
		case s.Denied:
			fail(w, http.StatusForbidden, "Policy doesn't allow this to be performed.")
		default:
			serve(w, r, s)
		}
	}
}

func serveServers(w http.ResponseWriter, r *http.Request, s State) {
	name, err := regexp.Compile(r.URL.Query().Get("name"))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	servers := []object{}
	for _, m := range s.Machines {
		if m.State != "terminated" && name.MatchString(m.Name) {
			servers = append(servers, m.server())
		}
	}
	reply(w, http.StatusOK, object{"servers": servers})
}

func serveServer(w http.ResponseWriter, r *http.Request, s State) {
	i := slices.IndexFunc(s.Machines, func(m Machine) bool { return m.ID == r.PathValue("id") && m.State != "terminated" })
	if i < 0 {
		fail(w, http.StatusNotFound, "Instance could not be found.")
		return
	}
	reply(w, http.StatusOK, object{"server": s.Machines[i].server()})
}

func (m Machine) server() object {
	status := "ACTIVE"
	if m.State == "stopped" {
		status = "SHUTOFF"
	}
	return object{
		"id": m.ID, "name": m.Name, "status": status, "OS-EXT-AZ:availability_zone": m.Zone,
		"flavor":    object{"original_name": m.Type},
		"addresses": object{"private": []object{{"addr": m.Address, "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}}},
	}
}

// serveNetwork knows the ports of machines; every other list is empty.
func serveNetwork(w http.ResponseWriter, r *http.Request, s State) {
	what := r.PathValue("what")
	items := []object{}
	for _, m := range s.Machines {
		if what == "ports" && m.ID == r.URL.Query().Get("device_id") {
			items = append(items, object{"id": "port-" + m.ID, "device_id": m.ID, "fixed_ips": []object{{"ip_address": m.Address}}})
		}
	}
	reply(w, http.StatusOK, object{what: items})
}

func reply(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(content); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func fail(w http.ResponseWriter, status int, message string) {
	reply(w, status, object{"error": object{"code": status, "message": message, "title": http.StatusText(status)}})
}
