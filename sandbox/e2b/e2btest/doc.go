// Package e2btest is E2B on this machine: a control plane, the gateway before
// the sandboxes, and in each sandbox an envd, faithful to what was measured of
// the real ones where it has bitten a client. Sandboxes are namespaces with an
// overlay over this machine's own files, so that real commands run and real
// users own what they write; that needs Linux and root. Faults are injected by
// the request.
//
// A program that uses the package calls RunChild first: each envd is the
// program itself, started again.
package e2btest
