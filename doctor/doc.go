// Package doctor finds what is wrong with a server that Guyline is to run on, or has been running on.
//
// [Look] reads the facts: what the server says about itself, the streams, their consumers and this user's permissions. It
// changes nothing; to learn whether a publication would be allowed it sends one that every stream refuses. [Examine] is pure: from the
// facts it makes findings, each one line with what is wrong, what follows from it and what to do. Each trap is a small
// function in [streamChecks], [stateChecks], [consumerChecks] or [serverChecks].
//
// A [Finding] is Trouble, which needs a person, or a Note. Some troubles are repaired by `guyline setup`; then the finding says so.
package doctor
