import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { matchLanguage } from './match-language.ts'
import { language, languageOf, type Catalogue } from './language.ts'
import type { Message } from '@watchfire/pages/messages'
import { refusalText } from './refusals.ts'
import { sizeText } from '@watchfire/pages/messages'
import { page } from './page.ts'
import { catalogueErrors, fullCatalogue } from './catalogue.ts'

const english = language.peek()
afterEach(() => {
  language.value = english
})

const files = import.meta.glob<unknown>('./languages/*.json', { eager: true, import: 'default' })

/** English with every plural form of a language, and each text changed. */
function inTheManner(tag: string, change: (text: string) => string): Record<string, Record<string, Message>> {
  const forms = new Intl.PluralRules(tag).resolvedOptions().pluralCategories
  const translated = (message: Message): Message =>
    typeof message === 'string' ? change(message) : { other: '', ...Object.fromEntries(forms.map((form) => [form, change(message.other)])) }
  return Object.fromEntries(
    Object.entries(fullCatalogue()).map(([part, messages]) => [
      part,
      Object.fromEntries(Object.entries(messages).map(([name, message]) => [name, translated(message)])),
    ]),
  )
}

describe('the catalogue', () => {
  it('has every part of the application', () => {
    const modules = readdirSync(fileURLToPath(new URL('.', import.meta.url))).map(String)
    expect(Object.keys(fullCatalogue())).toEqual(
      expect.arrayContaining(['damage', 'home', 'page', 'panel', 'private', 'refusals', 'shell', 'sizes', 'storage', 'swarm']),
    )
    for (const part of ['home', 'panel', 'kept']) expect(modules).toContain(`${part}.ts`)
  })

  it('is complete in every language', () => {
    for (const [file, catalogue] of Object.entries(files)) {
      const tag = file.slice('./languages/'.length, -'.json'.length)
      expect(Intl.getCanonicalLocales(tag), file).toEqual([tag])
      expect(catalogueErrors(tag, catalogue), file).toEqual([])
    }
  })
})

describe('a language file', () => {
  const polish = () =>
    ({ direction: 'ltr', ...inTheManner('pl', (text) => `pl ${text}`) }) as unknown as Catalogue & Record<string, Record<string, Message>>

  it('is used when it is complete', () => {
    const catalogue = polish()
    expect(catalogueErrors('pl', catalogue)).toEqual([])
    language.value = languageOf('pl', catalogue)
    expect(page('have', { count: 3 })).toBe('pl 3 people have this page')
    expect(sizeText(2048)).toBe('pl 2 KiB')
  })

  it('is rejected with a list of its errors', () => {
    const catalogue: Record<string, Record<string, unknown>> = structuredClone(polish())
    const { home, panel, page } = catalogue
    delete catalogue['chat']
    delete home?.['create']
    Object.assign(home ?? {}, { room: 'no place left', stranger: 'in no catalogue' })
    Object.assign(panel ?? {}, { everywhere: 'wrong {place}', close: '', here: { other: '{count} tu', one: '1 {what}' } })
    Object.assign(page ?? {}, { have: 'no forms' })
    catalogue['nonsense'] = {}
    const errors = catalogueErrors('pl', catalogue)
    expect(errors).toEqual(
      expect.arrayContaining([
        'chat.title is missing',
        'home.create is missing',
        'home.stranger is not a known message',
        'home.room has other placeholders than size, most',
        'panel.close is not a text',
        'panel.here lacks the form "few"',
        'panel.here lacks the form "many"',
        'panel.here has unknown placeholders as "one"',
        'page.have has no forms',
        'nonsense is not a known part',
      ]),
    )
    expect(catalogueErrors('pl', { ...polish(), direction: 'up' })).toEqual(['"direction" is neither "ltr" nor "rtl"'])
    expect(catalogueErrors('pl', 'words')).toEqual(['not an object'])
  })
})

describe('the selected language', () => {
  it('is the first available one, also under a shorter tag', () => {
    const among =
      (...there: string[]) =>
      (...tags: string[]) =>
        matchLanguage(tags, (tag) => there.includes(tag))
    expect(among('de')('de-AT', 'en')).toBe('de')
    expect(among('zh-Hant')('zh-Hant-TW')).toBe('zh-Hant')
    expect(among('de')('fr-CH', 'de-CH')).toBe('de')
    expect(among('de')('en-GB', 'de')).toBe(null)
    expect(among('en-XA')('en-XA')).toBe('en-XA')
    expect(among('ar-XB')('ar')).toBe(null)
    expect(among('de')()).toBe(null)
    expect(among('de')('', '-', 'de')).toBe('de')
  })

  it('applies to the service workers too, with English as fallback', () => {
    expect(refusalText('nothing', ['tlh', 'en'])).toBe('There is nothing here.')
  })
})
