import { afterEach, describe, expect, it } from 'vitest'
import { accented, mirrored } from './disguise.ts'
import { agoText, language, numberText, part, percentText, secondsText, sizeText, speakOneOf, speedText, type Language } from './index.ts'

const english = language.peek()
afterEach(() => {
  language.value = english
})

const words = part('test', {
  plain: 'Nothing to put in.',
  named: 'By {name}, {name}!',
  tabs: { '=0': 'no tab', '=1': 'one tab', other: '{count} tabs' },
  both: { '=1': 'one file, {size}', other: '{count} files, {size}' },
})

describe('a sentence', () => {
  it('is said with what is put in its places', () => {
    expect(words('plain')).toBe('Nothing to put in.')
    expect(words('named', { name: 'Ann {name}' })).toBe('By Ann {name}, Ann {name}!')
    expect(words('both', { count: 12_345, size: '1 MiB' })).toBe('12,345 files, 1 MiB')
  })

  it('has the form that its count asks for', () => {
    expect([0, 1, 2, 21].map((count) => words('tabs', { count }))).toEqual(['no tab', 'one tab', '2 tabs', '21 tabs'])
  })

  it('can be put around more than words', () => {
    expect(words.around('named', { name: 3 })).toEqual(['By ', '3', ', ', '3', '!'])
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
    expect([1, 3, 5, 22, 112].map((count) => words('tabs', { count }))).toEqual(
      ['1 karta', '3 karty', '5 kart', '22 karty', '112 kart'],
    )
  })

  it('writes numbers its own way', () => {
    language.value = { ...polish, tag: 'de' }
    expect(numberText(12_345.5)).toBe('12.345,5')
    expect(sizeText(1536)).toBe('1,5 KiB')
    expect(percentText(42)).toBe('42\u00a0%')
    expect(agoText(3 * 3_600_000)).toBe('vor 3 Stunden')
  })

  it('is spoken when it is the first wanted that there is, else English', async () => {
    await speakOneOf(['tlh', 'en-GB', 'en-XA'])
    expect(language.value.tag).toBe('en')
    await speakOneOf(['tlh', 'en-XA', 'en'])
    expect(language.value.tag).toBe('en-XA')
    await speakOneOf(['__proto__', 'ar-XB'])
    expect(language.value).toMatchObject({ tag: 'ar-XB', direction: 'rtl' })
  })
})

describe('English in disguise', () => {
  it('leaves places where they are', () => {
    language.value = accented
    expect(words('named', { name: 'Ann' })).toBe('⟦Ɓẏ Ann, Ann!···⟧')
    expect(words('tabs', { count: 1 })).toMatch(/^⟦ǿƞḗ ŧȧƀ·⟧$/)
    expect(sizeText(2048)).toMatch(/^⟦2 ĶīƁ·⟧$/)
  })

  it('is turned around, but for what is put into it', () => {
    language.value = mirrored
    expect(words('named', { name: 'Ann' })).toBe('\u202eBy \u202c\u2068Ann\u2069\u202e, \u202c\u2068Ann\u2069\u202e!\u202c')
  })
})

describe('a figure', () => {
  it('reads as people say it', () => {
    expect([speedText(0), speedText(1_572_864)]).toEqual(['0 bytes/s', '1.5 MiB/s'])
    expect([secondsText(200), secondsText(2900)]).toEqual(['1 s', '3 s'])
    expect([agoText(0), agoText(59_000), agoText(90_000), agoText(50 * 3_600_000)]).toEqual(
      ['1 second ago', '59 seconds ago', '1 minute ago', '2 days ago'],
    )
  })
})
