package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// seen is a line of the program witness.
type seen struct {
	At     time.Time `json:"at"`
	Target string    `json:"target"`
	Answer string    `json:"answer"`
	from   string    // machine
}

func (s seen) place() string { return s.from + " asks " + s.Target }

// target is an address, and who is to answer there.
type target struct {
	url  string
	want string // empty: nothing has the address
}

// witnesses ask all targets from several machines, all the time.
type witnesses struct {
	targets map[string]target // by URL

	mu     sync.Mutex
	latest map[string]seen // by place
	right  map[string]time.Time
	stolen []seen
	asked  int
}

// watch starts the program on machines, each with all targets.
func (l *lab) watch(t *testing.T, machines []string, targets []target) *witnesses {
	t.Helper()
	w := &witnesses{targets: map[string]target{}, latest: map[string]seen{}, right: map[string]time.Time{}}
	var urls []string
	for _, each := range targets {
		w.targets[each.url] = each
		urls = append(urls, each.url)
	}
	for _, machine := range machines {
		script := "echo $$ > /run/witness.pid; exec witness watch " + strings.Join(urls, " ")
		cmd := exec.Command(labBinary, "exec", "--name", l.name, machine, "--", "bash", "-c", script)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			s := seen{from: machine}
			for lines := json.NewDecoder(out); lines.Decode(&s) == nil; s = (seen{from: machine}) {
				w.take(s)
			}
		}()
		t.Cleanup(func() {
			l.sh(t, machine, "kill $(cat /run/witness.pid)") // a signal to lab exec would not reach it
			<-read
			_ = cmd.Wait()
		})
	}
	return w
}

// take notes an answer.
func (w *witnesses) take(s seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	want := w.targets[s.Target].want
	if s.Answer != "" && s.Answer != want {
		w.stolen = append(w.stolen, s)
	}
	if s.Answer == want {
		w.right[s.place()] = s.At
	}
	w.latest[s.place()] = s
}

// wrong names the places that have not had the right answer to a question since a moment, or nothing.
func (w *witnesses) wrong(since time.Time, machines int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var texts []string
	for place, s := range w.latest {
		silent := w.targets[s.Target].want == "" // thefts tells if it is not
		if !silent && !w.right[place].After(since) {
			texts = append(texts, fmt.Sprintf("%s: the last answer was %q", place, s.Answer))
		}
	}
	if len(w.latest) < machines*len(w.targets) {
		texts = append(texts, "not every target was asked yet")
	}
	return strings.Join(texts, "; ")
}

// thefts are the answers since a moment by others than who has the address. Each is returned once.
func (w *witnesses) thefts() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.stolen
	w.stolen = nil
	return list
}
