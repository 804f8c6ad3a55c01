// The rules of WCAG 2.2 AA that axe can check automatically.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import axe from 'axe-core'

import { newVisitor, startServer } from './page-driver.mjs'
import { file, generated, picture } from './fixtures.mjs'

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
const UNAVAILABLE_PAGE = '/p/bafkreig4iwbmcqslduqg6cyc3vgq3xtqc4dsl7yfvwthwvbszeieeey76m'

for (const [name, options] of [
  ['in the light theme', { colorScheme: 'light' }],
  ['in the dark theme', { colorScheme: 'dark' }],
  ['on a phone', { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true }],
]) {
  test(`no view breaks an accessibility rule ${name}`, async (t) => {
    const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': 524_288, 'channels.open_rooms': true } })
    const [person, holder] = [await newVisitor(t, server, options), await newVisitor(t, server)]
    const broken = []
    const check = async (where) => {
      await person.tab.evaluate(axe.source)
      const { violations, passes } = await person.tab.evaluate(
        (values) => window.axe.run(document, { runOnly: { type: 'tag', values } }),
        TAGS,
      )
      assert(passes.length > 10, `only ${passes.length} rules apply to ${where}`)
      for (const { id, nodes } of violations) broken.push(`${where}: ${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' ')}`)
    }
    const openPanel = async () => {
      await person.tab.getByRole('button', { name: 'Connections' }).click()
      await person.waitForText('Traffic of this browser')
    }
    await person.goTo('/')
    await person.waitForText('Up to')
    await check('home')
    await person.sharePage({ text: '# Words\n\nand `code`', files: [file('cat.png', picture(9, 9), 'image/png')] })
    await person.waitForText('and code')
    await openPanel()
    await check('a page')
    await person.tab.getByRole('link', { name: 'Watchfire' }).click()
    await person.waitForText('Burning in this tab')
    await check('home, with a kept page')
    await person.tab.getByRole('link', { name: 'Manage them' }).click()
    await person.tab.getByRole('textbox', { name: 'Link of a page' }).waitFor()
    await check('the kept pages')
    await person.goTo(await holder.sharePage({ files: [file('film.bin', generated(8_000_000))] }))
    await openPanel()
    await person.tab.locator('.transfers tbody tr').waitFor()
    await person.waitForText(/[1-9]\d?% · /)
    await check('a loading page')
    await holder.leave()
    await person.waitForText('The last person who had it has left')
    await check('a page whose last holder left')
    await person.goTo(UNAVAILABLE_PAGE)
    await person.waitForText('Nobody has this page right now')
    await check('an unavailable page')
    await person.goTo('/p/nonsense')
    await person.waitForText('This page cannot be shown')
    await check('an invalid link')
    await person.goTo('/chat')
    await person.waitForText('Connected')
    await check('chat')
    assert.deepEqual(broken, [])
  })
}
