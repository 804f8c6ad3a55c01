// A walk through all views, which finds everything by its place, so that it goes through every language.

import { writeFile } from 'node:fs/promises'
import path from 'node:path'

import { newFolder } from '../lib/folders.mjs'
import { drop } from './dropped-files.mjs'
import { file, generated, pdf, picture, sound } from './fixtures.mjs'
import { newVisitor, startServer } from './page-driver.mjs'

const UNAVAILABLE_PAGE = '/p/bafkreig4iwbmcqslduqg6cyc3vgq3xtqc4dsl7yfvwthwvbszeieeey76m'
/** Content without letters, which no check takes for a text of the app. */
const TEXT = '## ⟦1⟧\n\n⟦2⟧ [⟦3⟧](https://example.org) `⟦4⟧`'

/** Calls `check` in each view with the visitor and the name of the view. `options` configure the visitor's browser. */
export async function visitViews(t, options, check) {
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': 524_288, 'channels.open_rooms': true } })
  const [person, holder] = [await newVisitor(t, server, options), await newVisitor(t, server)]
  const main = person.tab.getByRole('main')
  await person.goTo('/')
  await person.tab.locator('.room', { hasText: '4' }).waitFor()
  await main.locator('textarea').fill(TEXT)
  await person.tab.locator('input[type=file]').setInputFiles([file('1.png', picture(9, 9), 'image/png'), file('2.bin', generated(9))])
  await main.locator('.chips li').nth(1).waitFor()
  await check(person, 'home')
  await main.locator('button.light').click()
  await main.locator('input.link').waitFor()
  await openTransfers(main)
  await main.locator('.transfers .block-bar').waitFor()
  await check(person, 'a page')
  await drop(person, [await fileOnDisk(t, '4.bin', 9)])
  await main.locator('.offer button').nth(1).waitFor()
  await check(person, 'a drop on a page')
  await main.locator('.offer button').nth(1).click()
  await person.tab.locator('.brand').click()
  await main.locator('.kept li').waitFor()
  await check(person, 'home, with a kept page')
  await main.locator('.kept h2 a').click()
  await main.locator('.kept-view li').waitFor()
  await main.locator('.kept-view input').fill('nonsense')
  await main.locator('.kept-view form button').click()
  await main.locator('.kept-view .bad').waitFor()
  await check(person, 'the kept pages')
  // The relay needs a minute for it, more than a check takes on a busy machine.
  await person.goTo(await holder.sharePage({ files: [await fileOnDisk(t, '3.bin', 30_000_000)] }))
  await openTransfers(main)
  await main.locator('.transfers tbody tr').waitFor()
  await main.locator('.coming progress').waitFor()
  await check(person, 'a loading page')
  await holder.leave()
  await main.locator('.coming progress.resting').waitFor()
  await check(person, 'a page whose last holder left')
  await person.goTo(UNAVAILABLE_PAGE)
  await main.locator('.coming h1').waitFor()
  await check(person, 'an unavailable page')
  for (const [name, address] of Object.entries({ 'an invalid link': '/p/nonsense', 'an unknown path': '/nowhere' })) {
    await person.goTo(address)
    await main.locator('.plain').waitFor()
    await check(person, name)
  }
  await person.goTo('/chat')
  await main.locator('.chat .say').waitFor()
  await check(person, 'chat')
}

/** Calls `check` for each kind of content that has a view of its own, as a reader sees it, and for a live page as its publisher sees it. */
export async function visitContents(t, options, check) {
  const server = await startServer(t)
  const [person, holder] = [await newVisitor(t, server, options), await newVisitor(t, server)]
  const main = person.tab.getByRole('main')
  const documents = pdf(2)
  const contents = {
    'a folder': {
      draft: { files: [file('1.png', picture(9, 9), 'image/png'), file('2.png', picture(8, 9), 'image/png'), file('3.bin', generated(9))] },
      ready: () => main.locator('.file-rows img').nth(1).waitFor(),
    },
    'a PDF': {
      draft: { files: [file('4.pdf', Buffer.concat([documents.start, documents.end]), 'application/pdf')] },
      ready: () => main.locator('.pdf-text span').first().waitFor({ state: 'attached' }),
    },
    'a sound': { draft: { files: [file('5.wav', sound(), 'audio/wav')] }, ready: () => main.locator('audio').waitFor() },
    'a picture': { draft: { files: [file('6.png', picture(90, 60), 'image/png')] }, ready: () => main.locator('img.shown').waitFor() },
  }
  for (const [name, { draft, ready }] of Object.entries(contents)) {
    await person.goTo(await holder.sharePage(draft))
    await ready()
    await check(person, name)
    if (name !== 'a folder') continue
    await main.locator('.folder-tools button[aria-pressed]').click()
    await main.locator('.gallery img').nth(1).waitFor()
    await check(person, 'a gallery')
    await main.locator('.gallery a').first().click()
    await main.locator('.light-box img').waitFor()
    await check(person, 'a picture of a folder')
  }
  await person.goTo(await holder.sharePrivately({ text: TEXT }))
  await main.locator('.prose h2').waitFor()
  await check(person, 'a private page')
  await person.goTo('/')
  await main.locator('input[aria-describedby=grows]').click()
  await main.locator('.sealing input[maxlength]').fill('⟦6⟧')
  await main.locator('textarea').fill(TEXT)
  await main.locator('button.light').click()
  await main.locator('.append textarea').waitFor()
  await main.locator('.feed li').waitFor()
  await check(person, 'a live page of its publisher')
}

/** Opens the details of a page, unless they are open, and its connections. */
export async function openTransfers(main) {
  const details = main.locator('.line button[aria-expanded]')
  if ((await details.getAttribute('aria-expanded')) === 'false') await details.click()
  await main.locator('.opened > button[aria-expanded]').click()
}

/** A file on disk, because passing a large one through the browser's remote control takes too long on a busy machine. */
async function fileOnDisk(t, name, bytes) {
  const to = path.join(newFolder(t), name)
  await writeFile(to, generated(bytes))
  return to
}
