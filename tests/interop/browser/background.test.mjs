// Tabs that nobody looks at: people share a page and go on to other tabs.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { BackgroundTab } from './background-tab.mjs'
import { newVisitor, startServer } from './page-driver.mjs'

test('a hidden tab shares its page again after a restart, and after a stop only says so once it is connected', async (t) => {
  const first = await startServer(t)
  const visitor = await newVisitor(t, first)
  const link = await visitor.sharePage({ text: 'Still burning.' })
  const hidden = await BackgroundTab.open(t, visitor.tab.context().browser(), link)
  await visitor.waitForStatus('2 people have this page')
  await visitor.goTo('about:blank')
  await hidden.hide()
  await first.stop()
  await hidden.waitForText('The connection to the server is lost')

  const second = await startServer(t, { port: first.port })
  await visitor.goTo(link)
  await visitor.tab.locator('.file').getByText('Still burning.').waitFor()

  await hidden.freeze()
  await second.stop()
  await hidden.resume()
  const text = await hidden.waitForText('Sharing continues when it is connected again.')
  assert.doesNotMatch(text, /Sharing continues now|including you/)
  await startServer(t, { port: first.port })
  await hidden.waitForText('Sharing continues now.')
  assert.equal(await hidden.evaluate('document.visibilityState'), 'hidden')
})
