import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { findLiterals } from './find-literals.ts'

const SOURCES = fileURLToPath(new URL('../../..', import.meta.url))

/** Literals that are not translated: the file, the beginning of the literal, and the reason. */
const EXCEPTIONS: readonly (readonly [file: string, beginning: string, why: string])[] = [
  ['app/src/app/Header.tsx', 'Watchfire', 'a name'],
  ['app/src/chat/ChatPage.tsx', 'channels.open_rooms', 'a setting'],
  ['packages/element/src/watch-fire.ts', ':host', 'a style'],
  ['packages/pages/src/encryption/cipher.ts', 'watchfire private', 'input of the key derivation'],
  ['packages/pages/src/encryption/records.ts', 'watchfire seal', 'magic bytes'],
  ['app/src/app/share-target.ts', '(display-mode', 'a media query'],
  ['app/src/pages/Composer.tsx', '(pointer', 'a media query'],
  ['app/src/pages/rich-text.ts', '', 'selectors'],
  ['app/src/render/Player.tsx', 'linear-gradient', 'a style'],
  ['app/src/ui/keep-awake.ts', '(pointer', 'a media query'],
  ['app/src/render/sanitise.ts', 'task done', 'class names'],
  ['app/src/files/outside-link.ts', 'noopener', 'link relations'],
  ['packages/pages/src/files/still.ts', 'default-src', 'a policy'],
  ['app/src/sites/policy.ts', '', 'a policy'],
  ['app/src/streaming/response.ts', 'sandbox', 'a policy'],
  ['app/src/streaming/response.ts', 'text/plain', 'a media type'],
  ['app/src/sites/responder.ts', 'text/html', 'a media type'],
  ['app/src/sites/worker.ts', 'text/plain', 'a media type'],
  ['app/src/streaming/attachment.ts', 'attachment', 'a header'],
  ['packages/pages/src/live/error.ts', 'invalid live page', 'an error for developers'],
  ['packages/pages/src/live/fields.ts', 'watchfire live', 'the beginning of a format'],
  ['packages/pages/src/live/head.ts', 'watchfire head', 'the beginning of a format'],
  ['packages/pages/src/storage/browser-disk.ts', 'the writer has ended', 'an error for developers'],
  ['app/src/streaming/pull-stream.ts', 'cannot read the file', 'an error for developers'],
  ['app/src/streaming/worker.ts', 'cannot read the file', 'an error for developers'],
  ['packages/pages/src/swarm/load-trace.ts', 'blocks from peer', 'the name of a span'],
]

/** Whether the file is a part of the app or of a package: no test, and no catalogue. */
const isShipped = (file: string) => /\.tsx?$/.test(file) && !/\.test\.tsx?$|\.d\.ts$|\/src\/messages\//.test(file)

const filesIn = (folder: string) => readdirSync(SOURCES + folder, { recursive: true }).map((file) => `${folder}/${String(file)}`)

const texts = (code: string) => findLiterals('a.tsx', code).map(({ text }) => text)

describe('every text for people', () => {
  it('is in the catalogue', () => {
    const files = ['app/src', 'packages/element/src', 'packages/pages/src'].flatMap(filesIn).filter(isShipped).sort()
    expect(files.length).toBeGreaterThan(150)
    const unused = new Set(EXCEPTIONS)
    const found = files.flatMap((file) =>
      findLiterals(file, readFileSync(SOURCES + file, 'utf8')).flatMap(({ text, line }) => {
        const exception = EXCEPTIONS.find(([where, beginning]) => where === file && text.startsWith(beginning))
        if (exception === undefined) return [`${file}:${line}: ${text}`]
        unused.delete(exception)
        return []
      }),
    )
    expect(found).toEqual([])
    expect([...unused], 'exceptions without a literal').toEqual([])
  })
})

describe('a text outside the catalogue', () => {
  it.each([
    ['const a = <p>Save</p>', 'Save'],
    ['const a = <p>{isOn ? "Stop" : words("start")}</p>', 'Stop'],
    ['const a = <button aria-label="Close" />', 'Close'],
    ['const a = <button title={isOn ? "Close" : words("open")} />', 'Close'],
    ['const a = <input placeholder={`Search ${n}`} />', 'Search …'],
    ['const a = <b>{list.map((each) => <i>Gone</i>)}</b>', 'Gone'],
    ['document.title = "Watching"', 'Watching'],
    ['cell.textContent = "None"', 'None'],
    ['cell.setAttribute("aria-label", "None")', 'None'],
    ['const a = "It failed."', 'It failed.'],
    ['const a = reason ?? "no reason given"', 'no reason given'],
    ['tell(`${n} files were left out`)', '… files were left out'],
    ['throw new Error("The file is gone.")', 'The file is gone.'],
    ['throw new DOMException(`${name} is gone.`, "AbortError")', '… is gone.'],
    ['const a = `<iframe title="A site" src="${a}">`', 'A site'],
    ['const a = `<style>a { color: red }</style><h1>Not here</h1>`', 'Not here'],
    ['const a = "It is " + "not here"', 'not here'],
  ])('is found in %s', (code, text) => {
    expect(texts(code)).toContain(text)
  })

  it.each([
    'const a = <p class="notice bad" role="alert">{words("gone")} · {n}</p>',
    'import { a } from "./a file.ts"',
    'type A = "one of them"',
    'if (kind === "not these words") go()',
    'throw new Error("a leaf that is no record")',
    'const a = <p>{list.map((each) => <i class={each.kind === "own" ? "own" : "other"}>{each.name}</i>)}</p>',
    'go("next")',
  ])('is not mistaken for %s', (code) => {
    expect(texts(code)).toEqual([])
  })
})
