// Package finding is what is wrong and what to do about it, in one form for all who look: preflight checks, lint rules,
// causes of waiting, the provider's troubles, refusals of the deletion guard, and the doctor.
//
// Start at [Finding]. [Catalogue] lists the kinds that there are, by ID; a detector names the ID, and adds where it saw
// what. [Error] is a failure of a command, with its exit code and its hint.
//
// It reads and writes nothing but the streams that it is given.
package finding
