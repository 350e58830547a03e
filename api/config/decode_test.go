package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// sample has what documents of ours are made of.
type sample struct {
	metav1.TypeMeta `json:",inline"`

	Name    string            `json:"name"`
	Count   int               `json:"count,omitempty"`
	On      *bool             `json:"on,omitempty"`
	Period  metav1.Duration   `json:"period,omitzero"`
	Labels  map[string]string `json:"labels,omitempty"`
	Items   []item            `json:"items,omitempty"`
	Pointer *item             `json:"pointer,omitempty"`
}

type item struct {
	ID    string `json:"id"`
	place `json:",inline"`
	Taint corev1.Taint `json:"taint,omitzero"`
}

type place struct {
	Zone string `json:"zone,omitempty"`
}

const sampleHead = "apiVersion: ccmadm.dev/v1alpha1\nkind: Sample\n"

func decodeSample(text Text) (*sample, error) {
	s := &sample{}
	return s, text.Decode("Sample", s, func() field.ErrorList {
		var errs field.ErrorList
		if s.Name == "" {
			errs = append(errs, field.Required(field.NewPath("name"), ""))
		}
		for i := range s.Items {
			if s.Items[i].Zone == "moon" {
				errs = append(errs, field.Invalid(field.NewPath("items").Index(i).Child("zone"), "moon", "too far"))
			}
		}
		for key, value := range s.Labels {
			if value == "" {
				errs = append(errs, field.Required(field.NewPath("labels").Key(key), ""))
			}
		}
		return errs
	})
}

func TestText_Decode(t *testing.T) {
	for _, tc := range []struct {
		name string
		text string
	}{
		{"block style", sampleHead + "name: a\nitems:\n- id: '1'\n  zone: z\n"},
		{"flow style", sampleHead + "name: a\nitems: [{id: '1', zone: z}]\n"},
		{"JSON", `{"apiVersion":"ccmadm.dev/v1alpha1","kind":"Sample","name":"a","items":[{"id":"1","zone":"z"}]}`},
		{"anchors and merge keys", sampleHead + "name: a\nitems:\n- &one {id: '1', zone: z}\n"},
		{"a comment and a separator before", "# ours\n---\n" + sampleHead + "name: a\nitems: [{id: '1', zone: z}]\n"},
		{"a byte order mark and a comment before", "\ufeff# ours\n---\n" + sampleHead + "name: a\nitems: [{id: '1', zone: z}]\n"},
		{"a byte order mark before", "\ufeff---\n" + sampleHead + "name: a\nitems: [{id: '1', zone: z}]\n"},
		{"separators all around", "---\n---\n" + sampleHead + "name: a\nitems: [{id: '1', zone: z}]\n---\n# end\n...\n"},
		{"null is not said", sampleHead + "name: a\ncount: null\npointer: ~\nitems: [{id: '1', zone: z}]\n"},
		{"Windows line ends", strings.ReplaceAll("---\n"+sampleHead+"name: a\nitems: [{id: '1', zone: z}]\n", "\n", "\r\n")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decodeSample(Text{Data: []byte(tc.text)})
			if err != nil {
				t.Fatal(err)
			}
			want := &sample{
				TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "Sample"},
				Name:     "a",
				Items:    []item{{ID: "1", place: place{Zone: "z"}}},
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(item{}, place{})); diff != "" {
				t.Errorf("sample (-want +got):\n%s", diff)
			}
		})
	}
}

// Every text is refused with exactly these lines.
func TestText_Decode_BadInput(t *testing.T) {
	for _, tc := range []struct {
		name string
		text string
		want []string
	}{
		{
			name: "everything at once, each with its line",
			text: "apiVersion: ccmadm.dev/v9\nkind: Sample\nName: a\ncount: many\n" +
				"items:\n- id: 7\n  zoen: z\n- {id: b, zone: moon}\nname: ''\nname: b\n",
			want: []string{
				`read Sample s.yaml:1: apiVersion: Unsupported value: "ccmadm.dev/v9": supported values: "ccmadm.dev/v1alpha1"`,
				`read Sample s.yaml:3: unknown field "Name", did you mean "name"?`,
				`read Sample s.yaml:4: count: must be a whole number, not "many"`,
				`read Sample s.yaml:6: items[0].id: must be text in quotes, not "7"`,
				`read Sample s.yaml:7: unknown field "items[0].zoen", did you mean "zone"?`,
				`read Sample s.yaml:8: items[1].zone: Invalid value: "moon": too far`,
				`read Sample s.yaml:10: key "name" already set in line 9`,
			},
		},
		{
			name: "wrong types of every sort, and what is in them is not missed twice",
			text: sampleHead + "name: [a]\non: perhaps\nperiod: 5\nlabels: x\nitems: {id: a}\npointer: 3\n",
			want: []string{
				`read Sample s.yaml:3: name: must be text, not a list`,
				`read Sample s.yaml:4: on: must be true or false, not "perhaps"`,
				`read Sample s.yaml:5: period: must be a duration like 90s or 5m, not "5"`,
				`read Sample s.yaml:6: labels: must be a mapping, not "x"`,
				`read Sample s.yaml:7: items: must be a list, not a mapping`,
				`read Sample s.yaml:8: pointer: must be a mapping, not "3"`,
			},
		},
		{
			name: "a duration that is none hides nothing",
			text: sampleHead + "name: a\nperiod: 90\nitems: [{zone: moon}, 7, {zone: moon}]\n",
			want: []string{
				`read Sample s.yaml:4: period: must be a duration like 90s or 5m, not "90"`,
				`read Sample s.yaml:5: items[1]: must be a mapping, not "7"`,
				`read Sample s.yaml:5: items[0].zone: Invalid value: "moon": too far`,
				`read Sample s.yaml:5: items[2].zone: Invalid value: "moon": too far`,
			},
		},
		{
			name: "a type of Kubernetes inside ours",
			text: sampleHead + "name: a\nitems:\n- id: x\n  taint: {key: a, efect: NoSchedule, timeAdded: soon}\n",
			want: []string{
				`read Sample s.yaml:6: unknown field "items[0].taint.efect", did you mean "effect"?`,
				`read Sample s.yaml:6: items[0].taint.timeAdded: must be a mapping, not "soon"`,
			},
		},
		{
			name: "a key with dots and slashes",
			text: sampleHead + "name: a\nlabels:\n  a.example.com/b: ''\n  c: 1\n",
			want: []string{
				`read Sample s.yaml:5: labels[a.example.com/b]: Required value`,
				`read Sample s.yaml:6: labels[c]: must be text in quotes, not "1"`,
			},
		},
		{
			name: "behind an alias",
			text: sampleHead + "name: a\npointer: &one {id: 1}\nitems: [*one]\n",
			want: []string{
				`read Sample s.yaml:4: pointer.id: must be text in quotes, not "1"`,
			},
		},
		{
			name: "somebody else's document",
			text: "apiVersion: v1\nkind: Pod\nspec: {}\nname: ''\n",
			want: []string{
				`read Sample s.yaml:1: apiVersion: Unsupported value: "v1": supported values: "ccmadm.dev/v1alpha1"`,
				`read Sample s.yaml:2: kind: Unsupported value: "Pod": supported values: "Sample"`,
				`read Sample s.yaml:3: unknown field "spec"`,
			},
		},
		{name: "a second document", text: sampleHead + "name: a\n---\n" + sampleHead, want: []string{
			`read Sample s.yaml:1: want one document, got more`,
		}},
		{name: "a list", text: "- a\n", want: []string{
			`read Sample s.yaml:1: must be a mapping, not a list`,
		}},
		{name: "a word", text: "\nsample\n", want: []string{
			`read Sample s.yaml:2: must be a mapping, not "sample"`,
		}},
		{name: "nothing", text: "# a comment\n---\n", want: []string{
			`read Sample s.yaml:1: there is nothing in it`,
		}},
		{name: "no YAML", text: sampleHead + "name: [a\n", want: []string{
			`read Sample s.yaml:3: yaml: line 3: did not find expected ',' or ']'`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := decodeSample(Text{Name: "s.yaml", Data: []byte(tc.text)})
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %#v, want problems", err)
			}
			if diff := cmp.Diff(tc.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestText_Decode_Lenient(t *testing.T) {
	text := sampleHead + "name: a\nnewer: {a: b}\nitems: [{id: a, newer: 1}]\n"
	if got, err := decodeSample(Text{Data: []byte(text), Lenient: true}); err != nil || got.Items[0].ID != "a" {
		t.Errorf("fields that are not known: got %+v, %v", got, err)
	}
	_, err := decodeSample(Text{Name: "s", Line: 10, Data: []byte(text + "count: x\n"), Lenient: true})
	if want := `read Sample s:15: count: must be a whole number, not "x"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Callers tell these apart without reading text.
func TestProblems(t *testing.T) {
	if _, err := decodeSample(Text{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing: got %v", err)
	}
	_, err := decodeSample(Text{Data: []byte(sampleHead + "items: [{zone: moon}]\n")})
	var invalid *field.Error
	if !errors.As(err, &invalid) || invalid.Field != "name" {
		t.Errorf("got %v, want an error about the field name", err)
	}
	if want := `read Sample: line 3: items[0].zone: Invalid value: "moon": too far`; !strings.Contains(err.Error(), want) {
		t.Errorf("without a file: got %v, want %s", err, want)
	}
}

// Whatever the text, both readers agree on whether it is right, and lines are lines of it.
func FuzzText_Decode(f *testing.F) {
	f.Add(configHead + "mode: DaemonSet\nwait: {timeout: 90s}\n")
	f.Add("---\n" + configHead + "credentials: [{key: a, file: b}]\nroutes: yes\n---\n")
	f.Add(configHead + "x: &a {b: *a}\nmode: [1\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := &CloudConfiguration{}
		err := Text{Name: "f", Data: []byte(text)}.Decode(ConfigKind, c, c.Validate)
		var problems Problems
		if err != nil && !errors.As(err, &problems) {
			t.Fatalf("%#v is no problem with a place", err)
		}
		for _, p := range problems {
			if last := strings.Count(text, "\n") + 1; p.Line < 1 || p.Line > last {
				t.Errorf("line %d of %d: %v", p.Line, last, p)
			}
		}
	})
}
