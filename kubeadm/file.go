package kubeadm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// Role is what a machine does: it starts a cluster, or it joins one.
type Role string

// The roles, named as kubeadm's commands are.
const (
	RoleInit Role = "init"
	RoleJoin Role = "join"
)

// kind is the document that kubeadm reads for the role.
func (r Role) kind() string {
	if r == RoleJoin {
		return "JoinConfiguration"
	}
	return "InitConfiguration"
}

const (
	kubeadmGroup       = "kubeadm.k8s.io"
	v1beta3            = kubeadmGroup + "/v1beta3"
	v1beta4            = kubeadmGroup + "/v1beta4"
	kubeadmV1          = kubeadmGroup + "/v1" // read by kubeadm 1.37 with --allow-experimental-api alone
	clusterConfigKind  = "ClusterConfiguration"
	upgradeConfigKind  = "UpgradeConfiguration"
	byteOrderMark      = "\ufeff"
	cloudConfigAPIPart = "ccmadm.dev/"
)

// File is a kubeadm configuration: YAML or JSON documents in one file. It is edited as text, in the places
// that must change and nowhere else, so comments, order, quoting and unknown documents stay as the user wrote them.
type File struct {
	name     string
	bom      string
	docs     []*document
	nodeName string // --node-name, which kubeadm lays over the file
}

// Parse reads the documents and refuses what kubeadm would refuse too, as far as an editor must know it.
// The name and the line lead its errors. Without data the file is empty.
func Parse(name string, data []byte) (*File, error) { return parse(name, data, (*document).parse) }

// ParseMixed is Parse for lint: documents that are not of kubeadm's API group may be whatever they are.
func ParseMixed(name string, data []byte) (*File, error) {
	return parse(name, data, func(d *document) error {
		if err := d.Parse(); err != nil || d.Root == nil {
			return err
		}
		if !strings.HasPrefix(edit.Scalar(edit.Lookup(d.Root, "apiVersion")), kubeadmGroup+"/") {
			return nil
		}
		return d.parse()
	})
}

func parse(name string, data []byte, read func(*document) error) (*File, error) {
	f := &File{name: name}
	if err := edit.CheckEncoding(name, data); err != nil {
		return nil, err
	}
	text := string(data)
	if rest, ok := strings.CutPrefix(text, byteOrderMark); ok {
		f.bom, text = byteOrderMark, rest
	}
	docs, err := edit.Split(name, text)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		f.docs = append(f.docs, &document{Document: *d})
	}
	kinds := map[string]int{}
	for _, d := range f.docs {
		if err := read(d); err != nil {
			return nil, err
		}
		if d.kind == "" {
			continue
		}
		if first, ok := kinds[d.kind]; ok {
			return nil, d.Errorf(d.Root, "kind %q is specified twice, first in line %d", d.kind, first)
		}
		kinds[d.kind] = d.LineOf(d.Root)
	}
	return f, nil
}

// Bytes returns the file with the edits made so far.
func (f *File) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(f.bom)
	for _, d := range f.docs {
		b.WriteString(d.Separator)
		b.WriteString(d.Text)
	}
	return b.Bytes()
}

// TakeCloudConfiguration cuts our own document out of the file and returns it with the line on which its text starts:
// kubeadm init and join only warn about a kind that they do not know, but `kubeadm config validate` refuses it.
func (f *File) TakeCloudConfiguration() (doc []byte, line int, ok bool) {
	i := slices.IndexFunc(f.docs, func(d *document) bool { return strings.HasPrefix(d.apiVersion, cloudConfigAPIPart) })
	if i < 0 {
		return nil, 0, false
	}
	d := f.docs[i]
	f.docs = slices.Delete(f.docs, i, i+1)
	return []byte(d.Text), d.Line, true
}

// document returns the document of a kubeadm kind, or nil.
func (f *File) document(kind string) *document {
	for _, d := range f.docs {
		if d.kind == kind && d.isKubeadm() {
			return d
		}
	}
	return nil
}

// add appends a document to the file.
func (f *File) add(text string) error {
	d := &document{Document: edit.Document{File: f.name, Line: 1, Text: text}}
	if n := len(f.docs); n > 0 {
		d.Document = f.docs[n-1].Next(text)
	}
	if err := d.parse(); err != nil {
		return fmt.Errorf("add a document: %w", err)
	}
	f.docs = append(f.docs, d)
	return nil
}

// joinEmpty gives the comments of an empty document to the next one, or to the last when none follows: kubeadm
// refuses a document without apiVersion and kind, even if it is nothing but a licence.
func (f *File) joinEmpty() ([]Change, error) {
	var kept []*document
	var changes []Change
	var held *document
	for _, d := range f.docs {
		switch {
		case d.Root == nil && held == nil:
			held = &document{Document: edit.Document{Separator: d.Separator, Text: d.Text}}
		case d.Root == nil:
			held.Text += separatorComment(d.Separator) + d.Text
		case held != nil:
			if err := d.prepend(held.Text + separatorComment(d.Separator)); err != nil {
				return nil, err
			}
			d.Separator, held = held.Separator, nil
			kept = append(kept, d)
		default:
			kept = append(kept, d)
		}
		if d.Root == nil && d.Text != "" {
			changes = append(changes, Change{Line: d.Line, Text: "joined an empty document with its neighbour (kubeadm refuses it)"})
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	if held != nil {
		if err := kept[len(kept)-1].prepend(separatorComment(held.Separator) + held.Text); err != nil {
			return nil, err
		}
	}
	f.docs = kept
	return changes, nil
}
