package hook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/endpoint"
)

const planted = "tok3n-that-is-shown-nowhere"

func calling(hook v1alpha1.PoolHook) order {
	hook.Timeout = metav1.Duration{Duration: time.Minute}
	return order{hook: hook, token: planted, body: Body{
		Address: "203.0.113.7", Node: "w1", ProviderID: "cloud://w1", InternalIPs: []string{"192.0.2.11"}, Pool: "public",
		Services: []string{"shop/web"}, Generation: 1795872057123456,
	}}
}

func TestSend_Request(t *testing.T) {
	var got *http.Request
	var body []byte
	hook := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	if a := send(t.Context(), calling(hook)); a != (answer{}) {
		t.Fatalf("got %+v", a)
	}
	want := `{"address":"203.0.113.7","node":"w1","providerID":"cloud://w1","internalIPs":["192.0.2.11"],"pool":"public",` +
		`"services":["shop/web"],"generation":1795872057123456}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Error(diff)
	}
	line := fmt.Sprintln(got.Method, got.URL, got.Header.Get("Authorization"), got.Header.Get("Content-Type"), got.Proto)
	if want := "PUT /route Bearer " + planted + " application/json HTTP/1.1\n"; line != want {
		t.Errorf("got %swant %s", line, want)
	}
}

// answers are what an endpoint may say, and what is made of it. Each one repeats the token where it can.
func answers(called *atomic.Int32) map[string]struct {
	handler http.HandlerFunc
	want    answer
} {
	status := func(code int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			name, value, _ := strings.Cut(header, ": ")
			w.Header().Set(name, value)
			w.Header().Set("X-Token", planted)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}
	return map[string]struct {
		handler http.HandlerFunc
		want    answer
	}{
		"ok":                     {status(204, "", ""), answer{}},
		"ok, and 10 MB":          {large, answer{}},
		"an error, and 10 MB":    {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); large(w, r) }, answer{problem: "answers 500 Internal Server Error"}},
		"unavailable":            {status(503, "", planted), answer{problem: "answers 503 Service Unavailable"}},
		"unavailable for a time": {status(503, "Retry-After: 30", ""), answer{problem: "answers 503 Service Unavailable", after: 30 * time.Second}},
		"unavailable for ever":   {status(503, "Retry-After: 999999999999999", ""), answer{problem: "answers 503 Service Unavailable"}},
		"a status of its own":    {status(599, "", planted), answer{problem: "answers 599"}},
		"a status with a token":  {raw("HTTP/1.1 401 " + planted + "\r\n\r\n"), answer{problem: "answers 401 Unauthorized"}},
		"no HTTP":                {raw(planted + "\r\n\r\n"), answer{problem: "gives no valid HTTP answer"}},
		"nothing":                {raw(""), answer{problem: "has ended the connection without an answer"}},
		"long headers":           {raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", endpoint.MaxHeader) + "\r\n\r\n"), answer{problem: "gives no valid HTTP answer"}},
		"hangs":                  {func(_ http.ResponseWriter, r *http.Request) { hang(r) }, answer{problem: "has not answered within 1s"}},
		"redirects": {
			func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/route" {
					called.Add(1)
				}
				http.Redirect(w, r, "/elsewhere?"+planted, http.StatusTemporaryRedirect)
			},
			answer{problem: "answers 307, and redirects are not followed"},
		},
		"a later owner":              {status(409, "", `{"generation": 1795872057123457}`), answer{problem: "answers 409 Conflict", known: 1795872057123457}},
		"a conflict without number":  {status(409, "", planted), answer{problem: "answers 409 Conflict"}},
		"a number that is too great": {status(409, "", `{"generation": 9223372036854775807}`), answer{problem: "answers 409 Conflict"}},
		"a number of another status": {status(500, "", `{"generation": 1795872057123457}`), answer{problem: "answers 500 Internal Server Error"}},
	}
}

// large sends 10 MB, slowly.
func large(w http.ResponseWriter, _ *http.Request) {
	for range 10 {
		if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		time.Sleep(2 * time.Second)
	}
}

func TestSend_Answers(t *testing.T) {
	var called atomic.Int32
	for name, tt := range answers(&called) {
		t.Run(name, func(t *testing.T) {
			o := calling(serve(t, tt.handler))
			if name == "hangs" || strings.HasSuffix(name, "10 MB") { // the others have time, also on a busy machine
				o.hook.Timeout.Duration = time.Second
			}
			began := time.Now()
			got := send(t.Context(), o)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if took := time.Since(began); took > 10*time.Second { // half of what 10 MB take
				t.Errorf("it took %s with a timeout of %s", took, o.hook.Timeout.Duration)
			}
			if strings.Contains(got.problem, planted) {
				t.Errorf("the token is in %q", got.problem)
			}
		})
	}
	if called.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// A token goes to the endpoint that the pool names, and nowhere else: not without TLS, except on this machine.
func TestSend_WhereTo(t *testing.T) {
	var calls atomic.Int32
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	secure, other := serve(t, count), serve(t, count)
	plain := httptest.NewServer(count)
	t.Cleanup(plain.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	foreign, _, _ := strings.Cut(secure.CA[:200], "=")
	for _, tt := range []struct {
		name, url, ca, want string
		calls               int32
	}{
		{name: "https", url: secure.URL, ca: secure.CA, calls: 1},
		{name: "http on this machine", url: plain.URL, calls: 1},
		{name: "http", url: "http://192.0.2.1/route", want: "its URL is not https"},
		{name: "http by a name", url: strings.Replace(plain.URL, "127.0.0.1", "localhost", 1), want: "its URL is not https"},
		{name: "http to metadata", url: "http://169.254.169.254/latest", want: "its URL is not https"},
		{name: "a file", url: "file:///etc/passwd", want: "its URL is not https"},
		{name: "a user", url: strings.Replace(secure.URL, "https://", "https://u:"+planted+"@", 1), ca: secure.CA, want: "its URL is not https"},
		{name: "no URL", url: "https://\x7f" + planted, ca: secure.CA, want: "its URL is not https"},
		{name: "no CA", url: secure.URL, want: "its ca holds no certificate"},
		{name: "a broken CA", url: secure.URL, ca: foreign, want: "its ca holds no certificate"},
		{name: "https, and the endpoint speaks http", url: strings.Replace(plain.URL, "http:", "https:", 1), ca: other.CA, want: "speaks no TLS"},
		{name: "closed", url: "https://" + closed.Addr().String(), ca: secure.CA, want: "cannot be reached: connect: connection refused"},
		{
			name: "a certificate for another name", url: strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), ca: secure.CA,
			want: "has a certificate for another name",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls.Store(0)
			a := send(t.Context(), calling(v1alpha1.PoolHook{URL: tt.url, CA: tt.ca}))
			if !strings.HasPrefix(a.problem, tt.want) || tt.want == "" && a.problem != "" || strings.Contains(a.problem, planted) {
				t.Errorf("got %q, want %q", a.problem, tt.want)
			}
			if calls.Load() != tt.calls {
				t.Errorf("the endpoint was called %d times, want %d", calls.Load(), tt.calls)
			}
		})
	}
}

func TestSend_AnotherAuthority(t *testing.T) {
	called := false
	hook := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	hook.CA = otherCA
	a := send(t.Context(), calling(hook))
	if want := "has a certificate that ca does not vouch for"; !strings.HasPrefix(a.problem, want) || called {
		t.Errorf("got %q, want %q; called: %t", a.problem, want, called)
	}
}

// A call ends with its context, at once.
func TestSend_Cancel(t *testing.T) {
	reached := make(chan struct{})
	hook := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { close(reached); hang(r) }))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	want := calling(hook)
	began := time.Now()
	_ = send(ctx, want)
	if took := time.Since(began); took > 20*time.Second { // far below its timeout
		t.Errorf("it ended after %s", took)
	}
}

// otherCA signs for no endpoint of the tests. Its key is nowhere.
const otherCA = `-----BEGIN CERTIFICATE-----
MIIBlDCCATmgAwIBAgIQYmBTMHxELmW3uou/zo/vmDAKBggqhkjOPQQDAjASMRAw
DgYDVQQKEwdBY21lIENvMCAXDTI2MTEyODEzMzMxNloYDzIxMjYxMTA0MTMzMzE2
WjASMRAwDgYDVQQKEwdBY21lIENvMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
yeQtnCf07ndxYMrGRdwrLSDgJIucoZdxrVBUNCqTTIuvkT2HuYY9QZy7uxwN5Zj/
vxEW/CqLmBR+ElIf6tTVS6NvMG0wDgYDVR0PAQH/BAQDAgKEMBMGA1UdJQQMMAoG
CCsGAQUFBwMBMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFOp9sirR5biQv0Mh
P2NUuv4aAIrhMBYGA1UdEQQPMA2CC2V4YW1wbGUuY29tMAoGCCqGSM49BAMCA0kA
MEYCIQDJJllCswVinrY2AqR7L7ZJ83XmE0S97QgIhGBiJvz4xwIhAIui7BnwTlbN
BK8NdLYO1KWO1iE5eYxfaae0QBLjxK1t
-----END CERTIFICATE-----
`
