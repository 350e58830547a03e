package journal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// RunKind is the kind of the document that each key of the journal's ConfigMap holds.
const RunKind = "JournalRun"

// State is how far a run or a step has come.
type State string

// The states. What is Begun is under way, or was cut short; once another run has begun it is known to be CutShort.
const (
	Begun    State = "Begun"
	Done     State = "Done"
	Failed   State = "Failed"
	CutShort State = "CutShort"
)

// Run is one command that changes a cluster, with its steps. Command, Line, Machine, Version, Before and After are the
// caller's; the rest is the journal's.
type Run struct {
	metav1.TypeMeta `json:",inline"`
	// ID counts up.
	ID int `json:"id"`
	// Command is what was called, such as apply.
	Command string `json:"command"`
	// Line is the command line that does the same again, for a shell; empty in journals of before there was one. Never a
	// secret.
	Line string `json:"line,omitempty"`
	// Machine is where.
	Machine string `json:"machine"`
	// Version is that of ccmadm.
	Version string `json:"version,omitempty"`
	// Holder is how the run's Lease names it.
	Holder string `json:"holder"`
	// Before and After are what the run changes as a whole, such as the cluster's record. Never a secret.
	Before string       `json:"before,omitempty"`
	After  string       `json:"after,omitempty"`
	State  State        `json:"state"`
	Began  metav1.Time  `json:"began"`
	Ended  *metav1.Time `json:"ended,omitempty"`
	Steps  []Step       `json:"steps,omitempty"`
	// Shortened says that the journal had no room for it: of its steps there are those that did not succeed.
	Shortened bool `json:"shortened,omitempty"`

	// Waiting is told of a Lease that another run has left or holds, while it is watched for a renewal; may be nil.
	Waiting func(holder string) `json:"-"`
}

// Step is one thing that a run does. The first seven are the caller's; the rest is the journal's.
type Step struct {
	// Name is the phase's, or the like.
	Name string `json:"name"`
	// Node is the machine that it is done to; empty: the cluster.
	Node string `json:"node,omitempty"`
	// What is a sentence.
	What string `json:"what,omitempty"`
	// Before and After are what is changed, as text. Never a secret.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Change is the difference that the step makes, where that says more than before and after: as a dry run shows it,
	// with secrets masked.
	Change string `json:"change,omitempty"`
	// Undo is how to go back, as a command or a sentence.
	Undo  string       `json:"undo,omitempty"`
	State State        `json:"state"`
	Began metav1.Time  `json:"began"`
	Ended *metav1.Time `json:"ended,omitempty"`
	// Error is why it failed.
	Error string `json:"error,omitempty"`
}

// Bounds of texts in bytes, which are for people, who have seen them whole when it happened.
const (
	maxError  = 2_000
	maxChange = 10_000
)

// end notes how a step came out.
func (s *Step) end(now metav1.Time, err error) {
	s.State, s.Ended = Done, &now
	if err != nil {
		s.State, s.Error = Failed, cut(err.Error(), maxError)
	}
}

func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size], "") + " (cut)"
}

// copied returns a run that shares no step with r.
func (r *Run) copied() Run {
	c := *r
	c.Steps = slices.Clone(r.Steps)
	return c
}

// cutShort returns runs of which none is under way: those that have no end, and steps of theirs, never got one.
func cutShort(runs []Run) []Run {
	list := slices.Clone(runs)
	for i := range list {
		if list[i].State != Begun {
			continue
		}
		list[i] = list[i].copied()
		list[i].State = CutShort
		for k := range list[i].Steps {
			if list[i].Steps[k].State == Begun {
				list[i].Steps[k].State = CutShort
			}
		}
	}
	return list
}

func (r *Run) key() string { return fmt.Sprintf("run-%06d.yaml", r.ID) }

const (
	// keepSize is how many bytes of text the journal has before former runs are shortened, the oldest first.
	keepSize = 200_000
	// maxSize is how many a run may have, packed: that of some ten thousand machines.
	maxSize = 500_000
	// fullSize is how many the journal has before runs without success are shortened, too, which the one behind them has
	// taken up. An object of Kubernetes has a little more than a million at most.
	fullSize = 900_000
)

// encode returns the runs as far back as there is room for them. What is older has left no more than its steps without
// success, until they are repeated: who comes later must not believe that all is well there.
func encode(runs []Run) (documents, error) {
	list, size, whole := documents{text: map[string]string{}, packed: map[string][]byte{}}, 0, true
	repeated := map[string]bool{}
	for i, run := range slices.Backward(runs) {
		doc, err := run.document()
		if err != nil {
			return list, err
		}
		newest := i == len(runs)-1
		if newest && doc.size() > maxSize {
			return list, finding.Errorf("encode run %d of the journal: it has %d bytes, and there is room for %d",
				run.ID, doc.size(), maxSize)
		}
		whole = whole && !run.Shortened && (newest || size+doc.size() <= run.room())
		steps := run.Steps
		if !whole {
			run = run.shortened(repeated)
			if doc, err = run.document(); err != nil {
				return list, err
			}
		}
		for _, step := range steps {
			repeated[step.subject()] = true
		}
		if whole || len(run.Steps) > 0 {
			list.add(run.key(), doc)
			size += doc.size()
		}
	}
	return list, nil
}

func (r Run) document() (document, error) {
	r.APIVersion, r.Kind = v1alpha1.APIVersion, RunKind
	r.Before, r.After = state.Conceal(r.Before), state.Conceal(r.After)
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		r.Steps[i].Change, r.Steps[i].Error = redact.Text(r.Steps[i].Change), redact.Text(r.Steps[i].Error)
	}
	text, err := yaml.Marshal(r)
	if err != nil {
		return document{}, fmt.Errorf("encode run %d of the journal: %w", r.ID, err)
	}
	return pack(text)
}

// room is how large the journal may be with this run and those behind it.
func (r *Run) room() int {
	if r.State == Done {
		return keepSize
	}
	return fullSize
}

// shortened is a run with its steps without success that no other one has repeated.
func (r Run) shortened(repeated map[string]bool) Run {
	r.Shortened, r.Before, r.After = true, "", ""
	var open []Step
	for _, step := range r.Steps {
		if step.State != Done && !repeated[step.subject()] {
			step.Change, step.Error = "", cut(step.Error, maxError/10)
			open = append(open, step)
		}
	}
	r.Steps = open
	return r
}

// subject is what a step is done to.
func (s *Step) subject() string { return s.Name + " " + s.Node }

// decode is strict: what is not as this version wrote it is not to be acted upon.
func decode(list documents) ([]Run, error) {
	data, err := list.unpacked()
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, key := range slices.Sorted(maps.Keys(data)) {
		var run Run
		text := config.Text{Name: object + ", " + key, Data: []byte(data[key])}
		err := text.Decode(RunKind, &run, func() field.ErrorList {
			if run.ID > 0 && run.key() == key {
				return nil
			}
			return field.ErrorList{field.Invalid(field.NewPath("id"), run.ID, "it is not that of the key")}
		})
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return a.ID - b.ID })
	return runs, nil
}

// Find returns the run of the journal that has the ID.
func Find(runs []Run, id int) (*Run, error) {
	for _, run := range runs {
		if run.ID == id {
			return &run, nil
		}
	}
	return nil, finding.Usagef("find run %d: it is not in the journal", id).WithHint("ccmadm journal lists those that are")
}
