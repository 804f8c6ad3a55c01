// A click on a notification of the desktop, over a D-Bus session of its own.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { launch } from '../../lib/chromium.mjs'
import { waitUntil } from '../../lib/deadlines.mjs'
import { newFolder } from '../../lib/folders.mjs'
import { BackgroundTab } from '../background-tab.mjs'
import { addressOf, newVisitor, startServer, WAIT_MS } from '../page-driver.mjs'

const DESKTOP = fileURLToPath(new URL('desktop.py', import.meta.url))

test('a click on the notification that a page is back brings its hidden tab to the front', async (t) => {
  const desktop = await startDesktop(t)
  const server = await startServer(t)
  const writer = await newVisitor(t, server)
  const link = await writer.sharePage({ text: 'Back again.' })
  await writer.tab.goto('about:blank')

  const browser = await launch()
  t.after(() => browser.close())
  const session = await browser.newBrowserCDPSession()
  await session.send('Browser.grantPermissions', { permissions: ['notifications'] })
  // The tab was loaded at another address, as is one in which a person follows a link of the app.
  const tab = await BackgroundTab.open(t, browser, addressOf(server))
  await tab.waitForText('Light this page')
  await tab.evaluate(`{
    const link = document.createElement('a')
    link.href = ${JSON.stringify(link.slice(addressOf(server).length))}
    document.querySelector('main').append(link)
    link.click()
  }`)
  await tab.waitForText('Tell me when it is back')
  await tab.press('Tell me when it is back')
  await tab.waitForText('You will get a notification')
  await tab.hide()
  await writer.sharePage({ text: 'Back again.' })
  await waitUntil(() => desktop.lines.includes('shown back-again.md is back'), 'the desktop shows the notification', WAIT_MS)
  assert.equal(await tab.evaluate('document.visibilityState'), 'hidden')

  desktop.click()
  await waitUntil(async () => (await tab.evaluate('document.visibilityState')) === 'visible', 'the tab is in front', WAIT_MS)
  assert.equal(await tab.evaluate('document.hasFocus()'), true)
  await tab.waitForText('Back again.')
  await waitUntil(() => desktop.lines.includes('closed'), 'the notification is closed', WAIT_MS)
})

/** Starts a D-Bus session with a notification service, for the browsers that this process starts afterwards. */
async function startDesktop(t) {
  const address = `unix:path=${path.join(newFolder(t), 'bus')}`
  const bus = spawn('dbus-daemon', ['--session', '--nofork', `--address=${address}`, '--print-address=1'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.after(() => bus.kill())
  await firstLine(bus)
  process.env.DBUS_SESSION_BUS_ADDRESS = address
  const service = spawn('/usr/bin/python3', [DESKTOP], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => service.kill())
  const lines = []
  createInterface({ input: service.stdout }).on('line', (line) => lines.push(line))
  await waitUntil(() => lines.includes('ready'), 'the notification service is ready', WAIT_MS)
  return { lines, click: () => service.stdin.write('click\n') }
}

function firstLine({ stdout }) {
  return new Promise((resolve) => createInterface({ input: stdout }).once('line', resolve))
}
