import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { choose } from './choose.ts'
import { language, languageOf, type Catalogue } from './language.ts'
import type { Message } from './message.ts'
import { refusalText } from './refusals.ts'
import { sizeText } from './sizes.ts'
import { page } from './page.ts'
import { faultsOf, wholeCatalogue } from './whole.ts'

const english = language.peek()
afterEach(() => {
  language.value = english
})

const files = import.meta.glob<unknown>('./languages/*.json', { eager: true, import: 'default' })

/** English with every form that a language asks for, and each text changed. */
function inTheManner(tag: string, change: (text: string) => string): Record<string, Record<string, Message>> {
  const forms = new Intl.PluralRules(tag).resolvedOptions().pluralCategories
  const translated = (message: Message): Message => typeof message === 'string'
    ? change(message)
    : { other: '', ...Object.fromEntries(forms.map((form) => [form, change(message.other)])) }
  return Object.fromEntries(Object.entries(wholeCatalogue()).map(([part, messages]) =>
    [part, Object.fromEntries(Object.entries(messages).map(([name, message]) => [name, translated(message)]))],
  ))
}

describe('the catalogue', () => {
  it('has every part that the application says', () => {
    const modules = readdirSync(fileURLToPath(new URL('.', import.meta.url))).map(String)
    expect(Object.keys(wholeCatalogue())).toEqual(expect.arrayContaining(['home', 'page', 'panel', 'refusals', 'sealed', 'shell', 'sizes']))
    for (const part of ['home', 'panel', 'kept', 'storage', 'damage']) expect(modules).toContain(`${part}.ts`)
  })

  it('is whole in every language there is', () => {
    for (const [file, catalogue] of Object.entries(files)) {
      const tag = file.slice('./languages/'.length, -'.json'.length)
      expect(Intl.getCanonicalLocales(tag), file).toEqual([tag])
      expect(faultsOf(tag, catalogue), file).toEqual([])
    }
  })
})

describe('a language of its own', () => {
  const polish = () => ({ direction: 'ltr', ...inTheManner('pl', (text) => `pl ${text}`) }) as unknown as Catalogue & Record<string, Record<string, Message>>

  it('is whole when nothing is missing, and is spoken', () => {
    const catalogue = polish()
    expect(faultsOf('pl', catalogue)).toEqual([])
    language.value = languageOf('pl', catalogue)
    expect(page('held', { count: 3 })).toBe('pl Held by 3 tabs.')
    expect(sizeText(2048)).toBe('pl 2 KiB')
  })

  it('is refused with what it lacks', () => {
    const catalogue: Record<string, Record<string, unknown>> = structuredClone(polish())
    const { home, panel, page } = catalogue
    delete catalogue['chat']
    delete home?.['light']
    Object.assign(home ?? {}, { cut: 'no place left', stranger: 'in no catalogue' })
    Object.assign(panel ?? {}, { everywhere: 'wrong {place}', close: '', here: { other: '{count} tu', one: '1 {what}' } })
    Object.assign(page ?? {}, { held: 'no forms' })
    catalogue['nonsense'] = {}
    const faults = faultsOf('pl', catalogue)
    expect(faults).toEqual(expect.arrayContaining([
      'chat.title is missing',
      'home.light is missing',
      'home.stranger is no message',
      'home.cut has other places than count',
      'panel.close is no text',
      'panel.here lacks the form "few"',
      'panel.here lacks the form "many"',
      'panel.here has unknown places as "one"',
      'page.held has no forms',
      'nonsense is no part',
    ]))
    expect(faultsOf('pl', { ...polish(), direction: 'up' })).toEqual(['"direction" is neither "ltr" nor "rtl"'])
    expect(faultsOf('pl', 'words')).toEqual(['it is no object'])
  })
})

describe('the language that a browser asks for', () => {
  it('is the first that there is, without what says too much', () => {
    const among = (...there: string[]) => (...tags: string[]) => choose(tags, (tag) => there.includes(tag))
    expect(among('de')('de-AT', 'en')).toBe('de')
    expect(among('zh-Hant')('zh-Hant-TW')).toBe('zh-Hant')
    expect(among('de')('fr-CH', 'de-CH')).toBe('de')
    expect(among('de')('en-GB', 'de')).toBe(null)
    expect(among('en-XA')('en-XA')).toBe('en-XA')
    expect(among('ar-XB')('ar')).toBe(null)
    expect(among('de')()).toBe(null)
    expect(among('de')('', '-', 'de')).toBe('de')
  })

  it('is that of the service workers too, which have English', () => {
    expect(refusalText('nothing', ['tlh', 'en'])).toBe('There is nothing here.')
  })
})
