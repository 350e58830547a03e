package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rewrite changes the Nodes in what the cluster answers, and nothing else in it.
func (p *proxy) rewrite(r *http.Response) error {
	q := r.Request.URL.Query()
	if !ofNodes(r.Request.Context()) || r.StatusCode != http.StatusOK {
		return nil
	}
	if isTrue(q, "watch") {
		r.Body = p.rewriteWatch(r.Body, q)
		return nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("read nodes: %w", err)
	}
	if err := r.Body.Close(); err != nil {
		return fmt.Errorf("read nodes: %w", err)
	}
	if data, err = p.rewriteObject(data); err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	r.Header.Set("Content-Length", strconv.Itoa(len(data)))
	return nil
}

// nodesKey marks the context of a request for Nodes.
type nodesKey struct{}

func ofNodes(ctx context.Context) bool {
	asked, _ := ctx.Value(nodesKey{}).(bool)
	return asked
}

// isTrue reads a query as the API server does: true is whatever is there and not said to be false.
func isTrue(q url.Values, name string) bool {
	value := strings.ToLower(q.Get(name))
	return q.Has(name) && value != "0" && value != "false"
}

// rewriteObject changes a Node or a NodeList; other kinds, like what a table or a client of metadata asks for, stay.
func (s *shadow) rewriteObject(data []byte) ([]byte, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		return nil, fmt.Errorf("decode nodes: %w", err)
	}
	switch meta.Kind {
	case "Node":
		n := &corev1.Node{}
		if err := json.Unmarshal(data, n); err != nil {
			return nil, fmt.Errorf("decode a node: %w", err)
		}
		return json.Marshal(s.show(n))
	case "NodeList":
		list := &corev1.NodeList{}
		if err := json.Unmarshal(data, list); err != nil {
			return nil, fmt.Errorf("decode nodes: %w", err)
		}
		for i := range list.Items {
			list.Items[i] = *s.show(&list.Items[i])
		}
		return json.Marshal(list)
	}
	return data, nil
}

// event is one of a watch, as it is on the wire.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// stream is a watch on its way.
type stream struct {
	*io.PipeReader
	upstream io.Closer
}

// Close ends both sides.
func (s stream) Close() error { return errors.Join(s.PipeReader.Close(), s.upstream.Close()) }

// rewriteWatch changes events as they come. Phantoms come behind all Nodes that were there before: who has a phantom
// has those.
func (s *shadow) rewriteWatch(body io.ReadCloser, query url.Values) io.ReadCloser {
	reader, writer := io.Pipe()
	whole := query.Get("fieldSelector") == "" && query.Get("labelSelector") == ""
	initial := isTrue(query, "sendInitialEvents")
	go func() {
		out := json.NewEncoder(writer)
		var err error
		if version := query.Get("resourceVersion"); whole && !initial && version != "" && version != "0" {
			err = s.sendPhantoms(out, version)
		}
		in := json.NewDecoder(body)
		for err == nil {
			var e event
			if err = in.Decode(&e); err != nil {
				break
			}
			var end string
			if e, end, err = s.rewriteEvent(e); err != nil {
				break
			}
			err = out.Encode(e)
			if err == nil && whole && initial && end != "" {
				err = s.sendPhantoms(out, end)
			}
		}
		writer.CloseWithError(err)
	}()
	return stream{reader, body}
}

// rewriteEvent changes the Node in an event. It also returns the resource version of the bookmark that ends the Nodes
// that were there before.
func (s *shadow) rewriteEvent(e event) (event, string, error) {
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(e.Object, &object); err != nil {
		return e, "", fmt.Errorf("decode an event of a watch: %w", err)
	}
	switch {
	case e.Type == "BOOKMARK":
		if object.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			return e, object.ResourceVersion, nil
		}
		return e, "", nil
	case object.Kind != "Node" || e.Type == "ERROR":
		return e, "", nil
	}
	if e.Type == "DELETED" {
		defer s.forget(object.Name)
	}
	data, err := s.rewriteObject(e.Object)
	e.Object = data
	return e, "", err
}

func (s *shadow) sendPhantoms(out *json.Encoder, version string) error {
	for _, n := range s.allPhantoms(version) {
		data, err := json.Marshal(n)
		if err != nil {
			return err
		}
		if err := out.Encode(event{Type: "ADDED", Object: data}); err != nil {
			return err
		}
	}
	return nil
}
