import { afterEach, describe, expect, it } from 'vitest'
import { accented, mirrored } from './pseudo-languages.ts'
import { agoText, language, numberText, part, percentText, secondsText, sizeText, loadLanguage, speedText, type Language } from './index.ts'

const english = language.peek()
afterEach(() => {
  language.value = english
})

const text = part('test', {
  plain: 'Nothing to put in.',
  named: 'By {name}, {name}!',
  tabs: { '=0': 'no tab', '=1': 'one tab', other: '{count} tabs' },
  both: { '=1': 'one file, {size}', other: '{count} files, {size}' },
})

describe('a message', () => {
  it('is formatted with its values', () => {
    expect(text('plain')).toBe('Nothing to put in.')
    expect(text('named', { name: 'Ann {name}' })).toBe('By Ann {name}, Ann {name}!')
    expect(text('both', { count: 12_345, size: '1 MiB' })).toBe('12,345 files, 1 MiB')
  })

  it('has the form for its count', () => {
    expect([0, 1, 2, 21].map((count) => text('tabs', { count }))).toEqual(['no tab', 'one tab', '2 tabs', '21 tabs'])
  })

  it('can contain nodes', () => {
    expect(text.withNodes('named', { name: 3 })).toEqual(['By ', '3', ', ', '3', '!'])
  })
})

describe('another language', () => {
  const polish: Language = {
    tag: 'pl',
    direction: 'ltr',
    translate: (_, name, message) =>
      name === 'tabs' ? { one: '{count} karta', few: '{count} karty', many: '{count} kart', other: '{count} karty' } : message,
  }

  it('has plural forms of its own', () => {
    language.value = polish
    expect([1, 3, 5, 22, 112].map((count) => text('tabs', { count }))).toEqual(['1 karta', '3 karty', '5 kart', '22 karty', '112 kart'])
  })

  it('formats numbers its own way', () => {
    language.value = { ...polish, tag: 'de' }
    expect(numberText(12_345.5)).toBe('12.345,5')
    expect(sizeText(1536)).toBe('1,5 KiB')
    expect(percentText(42)).toBe('42\u00a0%')
    expect(agoText(3 * 3_600_000)).toBe('vor 3 Stunden')
  })

  it('is used when it is the first available one, else English', async () => {
    await loadLanguage(['tlh', 'en-GB', 'en-XA'])
    expect(language.value.tag).toBe('en')
    await loadLanguage(['tlh', 'en-XA', 'en'])
    expect(language.value.tag).toBe('en-XA')
    await loadLanguage(['__proto__', 'ar-XB'])
    expect(language.value).toMatchObject({ tag: 'ar-XB', direction: 'rtl' })
  })
})

describe('a pseudo-language', () => {
  it('leaves placeholders unchanged', () => {
    language.value = accented
    expect(text('named', { name: 'Ann' })).toBe('⟦Ɓẏ Ann, Ann!···⟧')
    expect(text('tabs', { count: 1 })).toMatch(/^⟦ǿƞḗ ŧȧƀ·⟧$/)
    expect(sizeText(2048)).toMatch(/^⟦2 ĶīƁ·⟧$/)
  })

  it('reverses the text but not the values', () => {
    language.value = mirrored
    expect(text('named', { name: 'Ann' })).toBe('\u202eBy \u202c\u2068Ann\u2069\u202e, \u202c\u2068Ann\u2069\u202e!\u202c')
  })
})

describe('a number', () => {
  it('is formatted for people', () => {
    expect([speedText(0), speedText(1_572_864)]).toEqual(['0 bytes/s', '1.5 MiB/s'])
    expect([secondsText(200), secondsText(2900)]).toEqual(['1 s', '3 s'])
    expect([agoText(0), agoText(59_000), agoText(90_000), agoText(50 * 3_600_000)]).toEqual([
      '1 second ago',
      '59 seconds ago',
      '1 minute ago',
      '2 days ago',
    ])
  })
})
