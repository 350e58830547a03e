package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	running    = `{"id": "i-1", "name": "one.internal", "address": "127.0.0.1", "zone": "r1a", "type": "t3.small", "state": "running", "cluster": "lab"}`
	terminated = `{"id": "i-2", "name": "two.internal", "address": "198.18.0.2", "zone": "r1b", "state": "terminated"}`
	usual      = `{"region": "r1", "key": "KEY", "machines": [` + running + `,` + terminated + `]}`
	denied     = `{"region": "r1", "key": "KEY", "denied": true, "machines": [` + running + `]}`
	signed     = "AWS4-HMAC-SHA256 Credential=KEY/20260101/r1/ec2/aws4_request"
)

// start serves a state.
func start(t *testing.T, state string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.json")
	if err := os.WriteFile(file, []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(newHandler(file, log.New(io.Discard, "", 0)))
	t.Cleanup(server.Close)
	return server.URL
}

// check sends a request and looks at the answer.
func check(t *testing.T, r *http.Request, wantCode int, want, reject string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != wantCode || !strings.Contains(string(body), want) || reject != "" && strings.Contains(string(body), reject) {
		t.Errorf("got %d %s\nwant %d with %q and without %q", response.StatusCode, body, wantCode, want, reject)
	}
}

func TestEC2(t *testing.T) {
	byName := func(name string) url.Values {
		return url.Values{
			"Action": {"DescribeInstances"}, "Filter.1.Name": {"private-dns-name"}, "Filter.1.Value.1": {name},
			"Filter.2.Name": {"instance-state-name"}, "Filter.2.Value.1": {"pending"}, "Filter.2.Value.2": {"running"},
		}
	}
	byID := func(id string) url.Values { return url.Values{"Action": {"DescribeInstances"}, "InstanceId.1": {id}} }
	tests := []struct {
		name, state  string
		form         url.Values
		key          string
		code         int
		want, reject string
	}{
		{"by ID", usual, byID("i-1"), signed, 200, "<privateDnsName>one.internal</privateDnsName>", "i-2"},
		{"by name", usual, byName("one.internal"), signed, 200, "<instanceId>i-1</instanceId>", "i-2"},
		{"a terminated one has no name", usual, byID("i-2"), signed, 200, "<name>terminated</name>", "two.internal"},
		{"and is not found by it", usual, byName("two.internal"), signed, 200, "DescribeInstancesResponse", "i-2"},
		{"unknown ID", usual, byID("i-3"), signed, 400, "InvalidInstanceID.NotFound", ""},
		{"an unknown filter matches nothing", usual, url.Values{"Action": {"DescribeInstances"}, "Filter.1.Name": {"tag:x"}, "Filter.1.Value.1": {"y"}}, signed, 200, "", "i-1"},
		{"zones", usual, url.Values{"Action": {"DescribeAvailabilityZones"}}, signed, 200, "<zoneId>id-r1a</zoneId>", ""},
		{"another action", usual, url.Values{"Action": {"RunInstances"}}, signed, 400, "InvalidAction", ""},
		{"another key", usual, byID("i-1"), strings.Replace(signed, "KEY", "MINE", 1), 401, "AuthFailure", "i-1"},
		{"denied", denied, byID("i-1"), signed, 403, "UnauthorizedOperation", "i-1"},
		{"a state that cannot be read is no answer", "", byID("i-1"), signed, 500, "read state", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, start(t, tt.state)+"/", strings.NewReader(tt.form.Encode()))
			r.RequestURI = ""
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Authorization", tt.key)
			check(t, r, tt.code, tt.want, tt.reject)
		})
	}
}

func TestGet(t *testing.T) {
	tests := []struct {
		name, state, path string
		headers           map[string]string
		code              int
		want, reject      string
	}{
		{"a machine learns who it is", usual, "/latest/meta-data/instance-id", map[string]string{"X-aws-ec2-metadata-token": "token"}, 200, "i-1", ""},
		{"not without a token", usual, "/latest/meta-data/instance-id", nil, 401, "", "i-1"},
		{"its address, without one", usual, "/latest/meta-data/local-ipv4", nil, 200, "127.0.0.1", ""},
		{"strangers learn nothing", `{"machines": []}`, "/openstack/latest/meta_data.json", nil, 404, "", "uuid"},
		{"nova's metadata", usual, "/openstack/latest/meta_data.json", nil, 200, `"uuid":"i-1"`, ""},
		{"servers by name", usual, "/compute/v2.1/servers/detail?name=%5Eone%5C.internal%24", map[string]string{"X-Auth-Token": "KEY"}, 200, `"id":"i-1"`, "i-2"},
		{"a deleted server", usual, "/compute/v2.1/servers/i-2", map[string]string{"X-Auth-Token": "KEY"}, 404, "could not be found", ""},
		{"ports of a server", usual, "/network/v2.0/ports?device_id=i-1", map[string]string{"X-Auth-Token": "KEY"}, 200, "127.0.0.1", "198.18.0.2"},
		{"not logged in", usual, "/compute/v2.1/servers/i-1", nil, 401, "authentication", ""},
		{"denied", denied, "/compute/v2.1/servers/i-1", map[string]string{"X-Auth-Token": "KEY"}, 403, "Policy", "i-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, start(t, tt.state)+tt.path, nil)
			r.RequestURI = ""
			for k, v := range tt.headers {
				r.Header.Set(k, v)
			}
			check(t, r, tt.code, tt.want, tt.reject)
		})
	}
}
