import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, insertNewlineAndIndent } from '@codemirror/commands';
import { HighlightStyle, bracketMatching, syntaxHighlighting } from '@codemirror/language';
import { lintKeymap } from '@codemirror/lint';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { EditorView, keymap, placeholder } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { PromQLExtension } from '@prometheus-io/codemirror-promql';
import { send } from '../lib/api';

/** Handle is an editor that createEditor made. */
export interface Handle {
  setText(text: string): void;
  setDark(dark: boolean): void;
  focus(at: number): void;
  destroy(): void;
}

interface Options {
  label: string;
  text: string;
  dark: boolean;
  change: (text: string) => void;
  run: () => void;
}

/** createEditor fills host with an editor of PromQL. A shadow root takes its styles, which the page's policy does not allow inline. */
export function createEditor(host: HTMLElement, o: Options): Handle {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const look = new Compartment();
  const view = new EditorView({
    parent: root as unknown as Element,
    root,
    state: EditorState.create({
      doc: o.text,
      extensions: [
        Prec.highest(keymap.of([
          { key: 'Shift-Enter', run: insertNewlineAndIndent },
        ])),
        Prec.high(keymap.of([{ key: 'Mod-Enter', run: () => (o.run(), true) }])),
        history(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        promql().asExtension(),
        keymap.of([...closeBracketsKeymap, ...completionKeymap]),
        keymap.of([{ key: 'Enter', run: () => (o.run(), true) }]),
        keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
        placeholder('PromQL expression'),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': o.label, 'aria-multiline': 'true' }),
        EditorView.updateListener.of((u) => u.docChanged && o.change(u.state.doc.toString())),
        look.of(lookOf(o.dark)),
      ],
    }),
  });
  return {
    setText(text) {
      if (view.state.doc.toString() === text) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    setDark: (dark) => view.dispatch({ effects: look.reconfigure(lookOf(dark)) }),
    focus(at) {
      view.focus();
      view.dispatch({ selection: { anchor: Math.min(at, view.state.doc.length) } });
    },
    destroy: () => view.destroy(),
  };
}

/** promql completes metrics, labels and values from this server. */
function promql(): PromQLExtension {
  return new PromQLExtension().activateLinter(true).activateCompletion(true).setComplete({
    remote: {
      url: '',
      apiPrefix: 'api/v1',
      httpMethod: 'GET',
      fetchFn: (input, init) => send(String(input).replace(/^\/+/, ''), init),
    },
    maxMetricsMetadata: 10000,
  });
}

function lookOf(dark: boolean) {
  const c = dark
    ? { name: '#8fd3e8', fn: '#e8b970', text: '#9fdc9f', digit: '#e7a0c8', word: '#c3a6ff', quiet: '#9db0bb' }
    : { name: '#0d5a78', fn: '#7a4b00', text: '#17663a', digit: '#8a1f5c', word: '#5a35a8', quiet: '#54646e' };
  return [
    EditorView.theme({
      '&': { fontSize: '14px', backgroundColor: 'transparent', color: 'var(--ink)' },
      '&.cm-focused': { outline: 'none' },
      '.cm-content': { fontFamily: 'var(--mono)', padding: '5px 4px', caretColor: 'var(--ink)' },
      '.cm-cursor': { borderLeftColor: 'var(--ink)' },
      '.cm-placeholder': { color: c.quiet },
      '.cm-tooltip': { backgroundColor: 'var(--card)', color: 'var(--ink)', border: '1px solid var(--line)', borderRadius: '6px' },
      '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--select)', color: 'var(--ink)' },
      '.cm-completionDetail, .cm-completionInfo': { color: c.quiet },
      // In a narrow window the help of a name would cover the other names.
      '@media (max-width: 640px)': { '.cm-completionInfo': { display: 'none' } },
      '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--select)' },
      '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { backgroundColor: 'var(--select)' },
    }, { dark }),
    syntaxHighlighting(HighlightStyle.define([
      { tag: [tags.labelName, tags.variableName, tags.name], color: c.name },
      { tag: [tags.function(tags.variableName), tags.operatorKeyword], color: c.fn },
      { tag: tags.string, color: c.text },
      { tag: tags.number, color: c.digit },
      { tag: [tags.keyword, tags.modifier], color: c.word },
      { tag: tags.comment, color: c.quiet },
      { tag: tags.invalid, color: 'var(--bad)' },
    ])),
  ];
}
