// docs/tutorial/cursors.md works as it is written, with real Python, npm and Chromium. Only the ports differ.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { launch } from '../lib/chromium.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { Reader } from './reader.mjs'

describe('the tutorial of live cursors', () => {
  let reader
  let browser
  let page

  before(async () => {
    const edit = (text) => text.replace('watchfire serve', '$& --listen 127.0.0.1:4000 --set admin.listen=127.0.0.1:4010')
    reader = await Reader.open('docs/tutorial/cursors.md', { edit })
    await reader.follow()
    assert.deepEqual(reader.files, ['watchfire.toml', 'app.py', 'page.html'])
    page = `http://localhost:${reader.ports[8000]}`
    await waitUntil(async () => (await fetch(`http://localhost:${reader.ports[4000]}/readyz`)).ok, 'the server is ready')
    browser = await launch()
  })

  after(async () => {
    await browser?.close()
    await reader?.close()
  })

  it('shows the pointer of one visitor to another, and clears it for both', async () => {
    const open = async (name) => {
      const tab = await (await browser.newContext()).newPage()
      await tab.goto(`${page}/?name=${name}`)
      await tab.waitForFunction((own) => document.getElementById('people').textContent.includes(own), name)
      return tab
    }
    const [ada, bob] = [await open('ada'), await open('bob')]
    for (const tab of [ada, bob]) {
      await tab.waitForFunction(() => document.getElementById('people').textContent.split(', ').toSorted().join() === 'ada,bob')
    }
    await ada.mouse.move(40, 60)
    await ada.mouse.move(120, 90)
    await bob.waitForFunction(() => {
      /** @type {HTMLElement | null} */
      const cursor = document.querySelector('.cursor')
      return cursor?.textContent === '➤ ada' && cursor.style.left.endsWith('px')
    })
    await bob.click('#clear')
    for (const tab of [ada, bob]) await tab.waitForFunction(() => !document.querySelector('.cursor'))
    await bob.close()
    await ada.waitForFunction(() => document.getElementById('people').textContent === 'ada')
  })
})
