package finding

import "fmt"

// Error is a failure that knows its exit code and, where there is one, the next step.
type Error struct {
	// Code is the exit status that it asks for.
	Code ExitCode
	// Err is what was being done, to what, and why it did not work.
	Err error
	// Hint is the next command or edit. Empty when Err says it all.
	Hint string
}

// Error is the text of the cause; the code and the hint are for main.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// WithHint says what to do next about a failure of this kind.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Errorf is a failure without a code of its own, to which a hint can be given.
func Errorf(format string, args ...any) *Error {
	return &Error{Code: ExitError, Err: fmt.Errorf(format, args...)}
}

// Usagef is a command line or a configuration that cannot be understood.
func Usagef(format string, args ...any) *Error {
	return &Error{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Preflightf is a check that failed before anything was changed.
func Preflightf(format string, args ...any) *Error {
	return &Error{Code: ExitPreflight, Err: fmt.Errorf(format, args...)}
}

// Refusedf is something that ccmadm does not do because it could destroy what is not its own.
func Refusedf(format string, args ...any) *Error {
	return &Error{Code: ExitRefused, Err: fmt.Errorf(format, args...)}
}
