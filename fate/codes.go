package fate

import (
	"fmt"
	"strings"

	"github.com/guyline/guyline/report"
)

// remedy is what may help a dead report; several may.
type remedy int

const (
	changeURI    remedy = 1 << iota // a replay would ask for the same again
	changeWorker                    // the report is well, the worker is not let or not able
	repairFile
	bringFile   // it is not where it is looked for, or not yet
	awaitSource // it was away, or ill
	seeReason   // the code does not tell
)

// diagnosis is what a code says: the cause, as the end of "It failed because", and what helps. "the source" in it stands for the upstream.
type diagnosis struct {
	cause string
	help  remedy
}

// diagnoses has a row for every code of Guyline's own.
var diagnoses = map[report.Code]diagnosis{
	report.CodeUndecodable:       {"the event cannot be read", changeURI},
	report.CodeInvalidEvent:      {"its URI is not a valid one", changeURI}, // of an event that was tried
	report.CodeUnknownSite:       {"the site registry does not know its site", changeWorker},
	report.CodeOutsideRoot:       {"its path leaves the worker's file root", changeURI | changeWorker},
	report.CodeUnsupportedScheme: {"there is no fetcher for its kind of URI", changeURI},
	report.CodeCredentialsInURI:  {"its URI carries a user name or password, which belong in the worker's configuration", changeURI},
	report.CodeRefusedAddress:    {"the worker is not allowed to go where its URI leads", changeURI | changeWorker},
	report.CodeTooManyRedirects:  {"the source redirects too often", changeURI},
	report.CodeBadRequest:        {"the source does not answer such a request", changeURI},
	report.CodeNotFound:          {"the source does not have it", changeURI | bringFile},
	report.CodeGone:              {"the source does not have it any more", changeURI | bringFile},
	report.CodeArchived:          {"the file lies in an archive", bringFile},
	report.CodeForbidden:         {"the source does not let the worker in", changeWorker},
	report.CodeLinkExpired:       {"the time of its signed link is over", changeURI},
	report.CodeUnauthorized:      {"the source does not let the worker in", changeWorker},
	report.CodeNoSuchBucket:      {"the source has no such bucket, or has it in another region", changeURI | changeWorker},
	report.CodeNoSuchHost:        {"the name of the source does not resolve", changeURI | changeWorker},
	report.CodeBadCertificate:    {"the certificate of the source cannot be trusted", changeWorker},
	report.CodeHostKey:           {"the SSH key of the source is unknown, or not the known one", changeWorker},
	report.CodeClockSkew:         {"the clocks of the worker and of the source differ", changeWorker},
	report.CodeOutOfResources:    {"the worker lacks disk, memory or file descriptors", changeWorker},
	report.CodeTooLarge:          {"the file is larger than the worker takes", repairFile | changeWorker},
	report.CodeNotAPDF:           {"the file is not a PDF", repairFile},
	report.CodeMalformedPDF:      {"the file is damaged", repairFile},
	report.CodeNoPages:           {"the file is damaged: it has no pages", repairFile},
	report.CodeEncrypted:         {"the file is encrypted", repairFile},
	report.CodeShortRead:         {"the file did not come whole", repairFile | awaitSource},
	report.CodeStillUploading:    {"the file was still being written", bringFile},
	report.CodeSHA256Mismatch:    {"the file is not the one that was announced", repairFile},
	report.CodeTimeout:           {"the source did not answer in time, or the worker was not done in time", awaitSource | changeWorker},
	report.CodeConnection:        {"the source refused or broke the connection", awaitSource},
	report.CodeThrottled:         {"the source asked to be left alone for a while", awaitSource},
	report.CodeServerError:       {"the source had an error of its own", awaitSource},
	report.CodeKilledMemory:      {"the file takes more memory than there is for it", repairFile | changeWorker},
	report.CodeKilledTime:        {"the file takes more time than there is for it", repairFile | changeWorker},
	report.CodeCrashed:           {"the extractor crashed on it", repairFile},
	report.CodePanic:             {"the handler panicked", changeWorker},
	report.CodeResultTooLarge:    {"the extractor's result is too large", changeWorker},
	report.CodeInvalidResult:     {"the extractor's result is not a JSON object", changeWorker},
	report.CodeRejected:          {"the extractor refuses the file", repairFile},
	report.CodeTemporary:         {"the extractor asked for another attempt each time", seeReason},
	report.CodeAbandoned:         {"the workers vanished with it", changeWorker},
	report.CodeUnclassified:      {"of an error that nobody has classified", seeReason},
}

// diagnose is the row of a code, or what can be said of a code that is a handler's own.
func diagnose(code report.Code, upstream string) diagnosis {
	d, known := diagnoses[code]
	if !known {
		return diagnosis{fmt.Sprintf("of %q", report.Line(string(code), report.MaxHeaderValue)), seeReason}
	}
	if source := report.Line(upstream, report.MaxHeaderValue); source != "" && source != "file" {
		d.cause = strings.ReplaceAll(d.cause, "the source", source)
	}
	return d
}

// say writes the remedies, the most thorough first.
func (r remedy) say(key, replay string) string {
	var ways []string
	add := func(one remedy, way string) {
		if r&one != 0 {
			ways = append(ways, way)
		}
	}
	add(changeURI, fmt.Sprintf("with another URI, `guyline dlq repair %s --uri NEW --reason R`", key))
	add(changeWorker, "once the worker's configuration or permissions are changed, "+replay)
	add(repairFile, "once the file is repaired, "+replay)
	add(bringFile, "once the file is there, "+replay)
	add(awaitSource, "once the source is well again, "+replay)
	add(seeReason, "once what the error names is corrected, "+replay)
	return strings.Join(ways, "; ")
}
