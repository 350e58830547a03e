package rehearsal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ccmadm/ccmadm/api/finding"
)

// line is one of a stream: what a rehearsal says that runs elsewhere, as one JSON object. It has one of these.
type line struct {
	Progress string   `json:"progress,omitempty"`
	Log      string   `json:"log,omitempty"`
	Node     *Verdict `json:"node,omitempty"`
	End      *end     `json:"end,omitempty"`
}

// end is the last line. Without it, and without as many Nodes as it says, there is no report.
type end struct {
	Nodes   int            `json:"nodes"`
	Refused map[string]int `json:"refused,omitempty"`
	// Error says why there is no report; Finding is its kind, where it has one.
	Error   string           `json:"error,omitempty"`
	Finding *finding.Finding `json:"finding,omitempty"`
}

// Sender writes a stream.
type Sender struct {
	mu  sync.Mutex
	out *json.Encoder
	err error
}

// NewSender writes a stream to out.
func NewSender(out io.Writer) *Sender { return &Sender{out: json.NewEncoder(out)} }

func (s *Sender) send(l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, s.out.Encode(l))
}

// Progress is for Options.Progress.
func (s *Sender) Progress(text string) { s.send(line{Progress: text}) }

// Write is for Options.Log.
func (s *Sender) Write(part []byte) (int, error) {
	s.send(line{Log: string(part)})
	return len(part), nil
}

// End sends what Run has returned. The error says that it cannot be sent.
func (s *Sender) End(report *Report, failed error) error {
	last := end{}
	if failed != nil {
		last.Error = failed.Error()
		errors.As(failed, &last.Finding)
	} else {
		last.Nodes, last.Refused = len(report.Nodes), report.Refused
		for i := range report.Nodes {
			s.send(line{Node: &report.Nodes[i]})
		}
	}
	s.send(line{End: &last})
	return s.err
}

// ErrCut says that a stream ended before its end.
var ErrCut = errors.New("the rehearsal's report is not complete")

// Receiver reads a stream, also one that is read again from its beginning after it was cut: what it has read already
// it leaves out then.
type Receiver struct {
	// Progress and Log take what the two of Options would.
	Progress func(string)
	Log      io.Writer

	read  int // lines
	nodes []Verdict
	other []byte
}

// largestLine is more than a Node's verdict takes.
const largestLine = 4 << 20

// Receive reads a stream from its beginning. ErrCut says that it may be tried again; another error is the rehearsal's
// own.
func (r *Receiver) Receive(in io.Reader) (*Report, error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, largestLine)
	for n := 1; scanner.Scan(); n++ {
		if n <= r.read {
			continue
		}
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			r.other = bytes.Clone(scanner.Bytes()) // half a line, or that of a program that does not know its task
			continue
		}
		r.read = n
		if l.End != nil {
			return r.end(l.End)
		}
		r.take(l)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCut, err)
	}
	if len(r.other) > 0 {
		return nil, fmt.Errorf("%w; its last line: %s", ErrCut, finding.Clean(string(r.other)))
	}
	return nil, ErrCut
}

func (r *Receiver) take(l line) {
	switch {
	case l.Node != nil:
		r.nodes = append(r.nodes, *l.Node)
	case l.Log != "" && r.Log != nil:
		_, _ = io.WriteString(r.Log, l.Log) // a copy that fails stops nothing
	case l.Progress != "" && r.Progress != nil:
		r.Progress(finding.Clean(l.Progress))
	}
}

func (r *Receiver) end(last *end) (*Report, error) {
	switch {
	case last.Finding != nil:
		last.Finding.Message = last.Error
		return nil, last.Finding
	case last.Error != "":
		return nil, errors.New(finding.Clean(last.Error))
	case last.Nodes != len(r.nodes):
		return nil, fmt.Errorf("read the rehearsal's report: it has %d Nodes of %d", len(r.nodes), last.Nodes)
	}
	refused := last.Refused
	if refused == nil {
		refused = map[string]int{}
	}
	return &Report{Nodes: r.nodes, Refused: refused}, nil
}
