package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

func TestReadEnd(t *testing.T) {
	line := func(i int) string { return fmt.Sprintf("line %06d\n", i) }
	var all strings.Builder
	for i := range 100_000 {
		all.WriteString(line(i))
	}
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		in    io.Reader
		first string
		last  string
		cut   bool
		err   error
	}{
		"nothing":       {in: strings.NewReader("")},
		"all of it":     {in: strings.NewReader(line(1) + line(2)), first: line(1), last: line(2)},
		"its end":       {in: strings.NewReader(all.String()), last: line(99_999), cut: true},
		"byte by byte":  {in: iotest.OneByteReader(strings.NewReader(all.String())), last: line(99_999), cut: true},
		"until it ends": {in: io.MultiReader(strings.NewReader(line(1)), iotest.ErrReader(broken)), first: line(1), last: line(1), err: broken},
	} {
		const most = 10_000
		end, cut, err := readEnd(tt.in, most)
		if !errors.Is(err, tt.err) || cut != tt.cut {
			t.Errorf("%s: cut %v, %v", name, cut, err)
		}
		if !strings.HasPrefix(string(end), tt.first) || !strings.HasSuffix(string(end), tt.last) {
			t.Errorf("%s: got %q", name, end)
		}
		if cut && (len(end) < most || len(end) > 3*most+64<<10 || !bytes.HasPrefix(end, []byte("line "))) {
			t.Errorf("%s: got %d bytes from %q", name, len(end), end[:20])
		}
	}
}

// kubelet answers for logs as one does: it gives so many of the last lines, and of these the first bytes.
func kubelet(t *testing.T, logs map[string]string) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		name := q.Get("container")
		if q.Get("previous") == "true" {
			name += ".previous"
		}
		text, there := logs[name]
		if !there {
			http.Error(w, "container "+name+" is waiting to start", http.StatusBadRequest)
			return
		}
		lines := slices.Collect(strings.Lines(text))
		if n, err := strconv.Atoi(q.Get("tailLines")); err == nil {
			lines = lines[max(0, len(lines)-n):]
		}
		text = strings.Join(lines, "")
		if n, err := strconv.Atoi(q.Get("limitBytes")); err == nil {
			text = text[:min(len(text), n)]
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
}

// TestBundle_Logs has the newest lines of each container, init containers too.
func TestBundle_Logs(t *testing.T) {
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "%06d %s\n", i, strings.Repeat("word ", 400))
	}
	secret := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEAplantedplantedplantedplantedplantedplanted\n", 40)
	client := kubelet(t, map[string]string{
		"long": long.String() + "the newest\n", "short": "one\ntwo\n", "short.previous": "it died\n", "prepare": "it waits for the cloud\n",
		"planted": secret + "-----END RSA PRIVATE KEY-----\n" + strings.Repeat("x y\n", logLines-20) + "after it\n",
	})
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm"}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare"}, {Name: "later"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "long"}, {Name: "short", RestartCount: 2}, {Name: "planted"}}
	b := New(taken)
	b.logs(t.Context(), client, []corev1.Pod{p})
	logs := map[string]string{}
	for name, data := range b.files {
		logs[strings.TrimPrefix(name, root+"/cluster/logs/kube-system/ccm/")] = string(data)
	}
	for name, want := range map[string]string{
		"long.log": "\nthe newest\n", "short.log": "one\ntwo\n", "short.previous.log": "it died\n", "prepare.log": "it waits for the cloud\n",
		"planted.log": "\nafter it\n",
	} {
		if !strings.HasSuffix(logs[name], want) {
			t.Errorf("%s does not end with %q, but with %q", name, want, logs[name][max(0, len(logs[name])-80):])
		}
	}
	if n := len(logs["long.log"]); n > logBytes || n < logBytes-4096 || logs["long.log"][6] != ' ' {
		t.Errorf("got %d bytes, want whole lines of the last %d: %.20q", n, logBytes, logs["long.log"])
	}
	if strings.Contains(logs["planted.log"], "planted") {
		t.Errorf("half of a key is in it: %.200s", logs["planted.log"])
	}
	missed := strings.Join(b.NotSeen(), "\n")
	for _, want := range []string{"log of kube-system/ccm/long: all before its last 102", "log of kube-system/ccm/later: "} {
		if !strings.Contains(missed, want) {
			t.Errorf("%q is not said: %s", want, missed)
		}
	}
}

// A snapshot of many Nodes can be judged from the archive as from the cluster.
func TestBundle_LargeSnapshot(t *testing.T) {
	s := &diagnosis.Snapshot{Taken: taken}
	s.APIVersion, s.Kind = diagnosis.APIVersion, diagnosis.Kind
	var n corev1.Node
	n.Status.Conditions = []corev1.NodeCondition{{Type: "Kept", Message: strings.Repeat("word ", 4000)}}
	for i := range 500 {
		n.Name = fmt.Sprintf("w%d", i)
		s.Nodes = append(s.Nodes, n)
	}
	b := New(taken)
	b.Judged(s, diagnosis.Diagnose(s))
	for _, name := range []string{"snapshot.json", "diagnosis.json"} {
		if data := b.files[root+"/"+name]; !json.Valid(data) {
			t.Errorf("%s, %d bytes, is no JSON", name, len(data))
		}
	}
	data := b.files[root+"/snapshot.json"]
	var archive bytes.Buffer
	if err := b.Write(&archive); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"snapshot.json": data, "b.tar.gz": archive.Bytes()} {
		in, err := Snapshot(bytes.NewReader(content))
		if err != nil {
			t.Fatal(name, err)
		}
		read, err := diagnosis.Read(name, in)
		if err != nil || len(data) <= mostBytes || len(read.Nodes) != len(s.Nodes) {
			t.Fatalf("%s: %d bytes: %v", name, len(data), err)
		}
	}
	if missed := b.NotSeen(); len(missed) > 0 {
		t.Errorf("not seen: %v", missed)
	}
}

// What is no archive of ours is refused, and what is cut is, too.
func TestSnapshot_Refused(t *testing.T) {
	b := New(taken)
	b.Text("diagnosis.txt", "nothing")
	var without bytes.Buffer
	if err := b.Write(&without); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"without a snapshot": without.Bytes(), "cut": without.Bytes()[:40], "gzip's first bytes": {0x1f, 0x8b},
	} {
		if _, err := Snapshot(bytes.NewReader(content)); err == nil || !strings.Contains(err.Error(), "read the archive: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, content := range map[string]string{"empty": "", "one byte": "{", "text": "no JSON"} {
		in, err := Snapshot(strings.NewReader(content))
		if err != nil {
			t.Fatal(name, err)
		}
		if got, _ := io.ReadAll(in); string(got) != content {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
