package report_test

import (
	"errors"
	"fmt"

	"github.com/guyline/guyline/report"
)

func ExampleDecode() {
	event, err := report.Decode([]byte(`{"site_id": "TWR-8842", "source_uri": "s3://reports/twr8842_q2.pdf"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(event.Key().Short(), report.NewToken(event.SiteID))

	_, err = report.Decode([]byte(`{"site_id": "TWR-8842", "site_id": "TWR-9017"}`))
	fmt.Println(err)
	// Output:
	// 628af88ec606 TWR-8842
	// undecodable event: the name "site_id" is repeated
}

func ExampleClassify() {
	err := fmt.Errorf("fetch the report: %w", report.Transient(report.CodeServerError, errors.New("503")))
	fault := report.Classify(err)
	fmt.Println(fault.Kind, fault.Code)
	// Output: transient server-error
}
