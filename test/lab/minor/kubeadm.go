//go:build ignore

// kubeadm of a minor version: its feature gates, the versions of what it deploys, what patches are for, and the fields of its API. Compiled in
// the module of that minor:
//
//	cd test/lab/kubernetes-1.37 && go run ../minor/kubeadm.go
package main

import (
	"encoding/json"
	"log"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/patches"
)

// fields are those of a struct by their names in JSON; nil is a value whose content has no fixed names. Those of a list
// are below the name [].
type fields map[string]fields

func main() {
	var kubeadm struct {
		Gates   []string                     `json:"gates"`
		Etcd    string                       `json:"etcd"`
		CoreDNS string                       `json:"coreDNS"`
		Pause   string                       `json:"pause"`
		Patches []string                     `json:"patches"`
		API     map[string]map[string]fields `json:"api"`
	}
	for name := range maps.Keys(features.InitFeatureGates) {
		kubeadm.Gates = append(kubeadm.Gates, string(name))
	}
	slices.Sort(kubeadm.Gates)
	kubeadm.Etcd, kubeadm.CoreDNS, kubeadm.Pause = constants.DefaultEtcdVersion, constants.CoreDNSVersion, constants.PauseVersion
	kubeadm.Patches = patches.KnownTargets()
	kubeadm.API = map[string]map[string]fields{}
	for kind, t := range scheme.Scheme.AllKnownTypes() {
		if kind.Group != "kubeadm.k8s.io" || kind.Version == runtime.APIVersionInternal || !strings.HasSuffix(kind.Kind, "Configuration") {
			continue
		}
		version := kind.GroupVersion().String()
		if kubeadm.API[version] == nil {
			kubeadm.API[version] = map[string]fields{}
		}
		kubeadm.API[version][kind.Kind] = of(t)
	}
	if err := json.NewEncoder(os.Stdout).Encode(kubeadm); err != nil {
		log.Fatal(err)
	}
}

func of(t reflect.Type) fields {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice {
		if items := of(t.Elem()); items != nil {
			return fields{"[]": items}
		}
		return nil
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	list := fields{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			maps.Copy(list, of(f.Type))
		} else if name != "" && name != "-" {
			list[name] = of(f.Type)
		}
	}
	return list
}
