// `--dashboard` of a load in a browser: the report grows where the reader is.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

import { collectPageErrors, launch } from '../lib/chromium.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Program } from '../lib/program.mjs'
import { binary, startWatchfire } from '../lib/server.mjs'

const SCENARIO = `
phases = [{ duration = "10m", rate = 5 }]
sessions = [{ name = "user", steps = [{ connect = { path = "/socket/websocket?vsn=2.0.0" } }, { stay = {} }] }]
`

test('the report of a load grows where its reader is, until the load ends', async (t) => {
  const server = await startWatchfire({})
  t.after(() => server.stop())
  const scenario = path.join(newFolder(t), 'slow.toml')
  writeFileSync(scenario, `targets = [{ url = "ws://localhost:${server.port}" }]${SCENARIO}`)
  const load = new Program(binary('watchfire'), ['load', scenario, '--dashboard', '127.0.0.1:0'])
  t.after(() => load.stop())
  const address = await load.until(() => load.output.match(/The dashboard is at (\S+)\n/)?.[1], 'the dashboard has an address')
  const browser = await launch()
  t.after(() => browser.close())

  const context = await browser.newContext({ viewport: { width: 390, height: 600 } })
  const pageErrors = await collectPageErrors(context)
  const page = await context.newPage()
  await page.goto(address)
  await page.waitForFunction(() => document.querySelectorAll('.chart').length > 3)
  const place = await page.evaluate(() => {
    const chart = document.querySelectorAll('.chart')[1]
    scrollTo(0, 300)
    chart.scrollLeft = 100
    return { top: scrollY, left: chart.scrollLeft, text: document.getElementById('progress').textContent }
  })
  assert.deepEqual([place.top, place.left], [300, 100])
  await page.waitForFunction((text) => document.getElementById('progress').textContent !== text, place.text)
  assert.deepEqual(await page.evaluate(() => [scrollY, document.querySelectorAll('.chart')[1].scrollLeft]), [300, 100])

  load.signal('SIGINT')
  await page.waitForFunction(() => !document.getElementById('progress'))
  assert.match(await page.textContent('body'), /Stopped/)
  assert.deepEqual(pageErrors, [])
})
