// Reports: a plan as one HTML page, and its timeline as a trace. The page is
// made of plain files, which the build puts together (cmake/page.cmake); the
// data in it is the JSON of the plan, and its scripts draw the pictures.
//
//   page/ ──build──▶ dv_page_lines ─┐
//   plan ──dv_plan_json_object──────┴─▶ the page
//
//   html.c     the page: data, its size, escaping
//   changes.c  what would change the predicted time most
//   trace.c    the timeline in Chrome's trace format
//   page/      index.html, style.css, and a script per picture
#ifndef DV_REPORT_H
#define DV_REPORT_H
#include "base/json.h"
#include "divvy/report.h"
#include "plan/plan.h"

// The lines of the HTML page, with DV_PAGE_DATA as a placeholder for the data.
// The last item is NULL.
extern const char *const dv_page_lines[];
#define DV_PAGE_DATA "@DATA@\n"

// Prints which plans would be made for other machines and with other divisions,
// the fastest first; null if the plan has no predicted time or is too large to
// be made again.
dv_status dv_report_changes(dv_json *j, const char *key, const dv_plan *plan,
                            const dv_plan_options *made_with, dv_diag *diag);
#endif
