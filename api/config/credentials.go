package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/redact"
)

// A value of extraEnv that is credentialPrefix + KEY + "}" comes from this key of the Secret with the credentials.
const credentialPrefix = "${credential:"

// CredentialOf is the key of the Secret that a value of extraEnv refers to.
func CredentialOf(value string) (key string, refers bool) {
	key, refers = strings.CutPrefix(value, credentialPrefix)
	if !refers {
		return "", false
	}
	return strings.CutSuffix(key, "}")
}

// MoveCredentials replaces each value of extraEnv that is a credential by a reference, and returns the values by the keys
// that they are to have in the Secret. Only a record of an earlier release has such values.
func (m *ControllerManager) MoveCredentials() map[string][]byte {
	var moved map[string][]byte
	m.ExtraEnv = slices.Clone(m.ExtraEnv)
	for i, env := range m.ExtraEnv {
		name, value, _ := strings.Cut(env, "=")
		if !bare(name, value) {
			continue
		}
		if moved == nil {
			moved = map[string][]byte{}
		}
		moved["env-"+name] = []byte(value)
		m.ExtraEnv[i] = name + "=" + credentialPrefix + "env-" + name + "}"
	}
	return moved
}

// bare tells whether a value is a credential itself, not a reference to one.
func bare(name, value string) bool {
	_, refers := CredentialOf(value)
	refers = refers || strings.HasPrefix(value, "$(") && strings.HasSuffix(value, ")") // another variable of the pod
	return !refers && redact.Carries(name, value)
}

// withoutCredentials refuses those that would be in clear in the cluster's record and in pods.
func (m *ControllerManager) withoutCredentials(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, env := range m.ExtraEnv {
		name, value, _ := strings.Cut(env, "=")
		if key, refers := CredentialOf(value); refers {
			for _, msg := range validation.IsConfigMapKey(key) {
				errs = append(errs, field.Invalid(path.Child("extraEnv").Index(i), env, msg))
			}
		} else if bare(name, value) {
			errs = append(errs, field.Forbidden(path.Child("extraEnv").Index(i), name+" has a credential, which the cluster's "+
				"record and the pods would show: give it as credentials: [{key: KEY, file: FILE}], and "+name+"="+credentialPrefix+"KEY}"))
		}
	}
	for i, arg := range m.ExtraArgs {
		if name, value, _ := strings.Cut(arg, "="); bare(name, value) {
			errs = append(errs, field.Forbidden(path.Child("extraArgs").Index(i), name+" has a credential, which the cluster's "+
				"record and the pods would show: give it in cloudConfig, credentials, or a variable of extraEnv that refers to one"))
		}
	}
	return errs
}
