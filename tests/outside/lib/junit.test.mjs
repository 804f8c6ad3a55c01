import assert from 'node:assert/strict'
import { test } from 'node:test'

import { junitCases } from './junit.mjs'

const REPORT = `<?xml version="1.0"?>
<testsuites><testsuite name="s">
  <testcase name="pulls &lt;a&gt;" classname="x"/>
  <testcase classname="x" name="pushes"><failure message="no &amp; never" type="t">at line 3</failure></testcase>
  <testcase name="later"><skipped/></testcase>
  <testcase name="ends" time="0.1"></testcase>
</testsuite></testsuites>`

test('a report has each case that ran, and what failed in it', () => {
  assert.deepEqual(junitCases(REPORT), [
    { name: 'pulls <a>', isPassed: true, found: '' },
    { name: 'pushes', isPassed: false, found: 'no & never\nat line 3' },
    { name: 'ends', isPassed: true, found: '' },
  ])
})
