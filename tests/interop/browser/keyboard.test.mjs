// Everything can be done with a keyboard.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { newVisitor, startServer } from './page-driver.mjs'

test('a page can be shared with the keyboard alone', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  const { keyboard } = person.tab
  await person.tabTo('Text of the page')
  await keyboard.type('Typed without a mouse.')
  await person.tabTo('Light this page')
  await keyboard.press('Enter')
  await person.sharedLink()
  await person.waitForText('Typed without a mouse.')
  await person.tabTo('Copy link')
  await keyboard.press('Enter')
  await person.waitForText('Copied')

  await person.goTo('/')
  await person.tabTo('Text of the page')
  await keyboard.type('And once more.')
  await keyboard.press('Control+Enter')
  await person.sharedLink()
  await person.waitForText('And once more.')
  person.assertNoPageErrors()
})

test('the focused control is visibly focused', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  const seen = new Set()
  for (let n = 0; n < 20; n += 1) {
    await person.tab.keyboard.press('Tab')
    const { name, shown } = await person.tab.evaluate(() => {
      const { activeElement } = document
      // A hidden input may show its focus on its label.
      const candidates = [activeElement, activeElement.closest('label'), activeElement.nextElementSibling, activeElement.closest('form')]
      const shown = candidates.some((element) => {
        if (element === null) return false
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element)
        return (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none'
      })
      return { name: activeElement.outerHTML.slice(0, 120), shown }
    })
    if (name.startsWith('<body') || seen.has(name)) break
    seen.add(name)
    assert(shown, `the focus is not visible on ${name}`)
  }
  assert(seen.size >= 6, `only ${seen.size} controls can be reached`)
})
