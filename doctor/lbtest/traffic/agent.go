package traffic

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Paths of the server and of the agent.
const (
	HealthPath = "/healthz"
	AskPath    = "/ask"
)

// Agent sends requests for a program that cannot send them itself: GET /ask with the query of [Query] returns an Outcome as
// JSON. It acts for callers that know the run's ID only.
func Agent(run string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+HealthPath, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET "+AskPath, func(w http.ResponseWriter, r *http.Request) {
		request, err := readQuery(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if subtle.ConstantTimeCompare([]byte(request.Run), []byte(run)) != 1 {
			http.Error(w, "the request is not of this test run", http.StatusForbidden)
			return
		}
		outcome, err := Do(r.Context(), request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(outcome) // a caller that left asks again
	})
	return mux
}

// Query is a Request for an [Agent].
func Query(r Request) url.Values {
	return url.Values{
		"run": {r.Run}, "protocol": {r.Protocol}, "address": {r.Address}, "count": {strconv.Itoa(r.Count)},
		"every": {r.Every.String()}, "timeout": {r.Timeout.String()},
	}
}

func readQuery(q url.Values) (r Request, err error) {
	r = Request{Run: q.Get("run"), Protocol: q.Get("protocol"), Address: q.Get("address")}
	if r.Count, err = strconv.Atoi(q.Get("count")); err != nil {
		return r, err
	}
	if r.Every, err = time.ParseDuration(q.Get("every")); err != nil {
		return r, err
	}
	if r.Timeout, err = time.ParseDuration(q.Get("timeout")); err != nil {
		return r, err
	}
	return r, r.check()
}
