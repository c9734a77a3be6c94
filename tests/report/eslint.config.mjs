// The rules for the scripts of the page: those of eslint:recommended that find
// mistakes, written out because its package may not be found from here.
const rules = ['constructor-super', 'for-direction', 'getter-return', 'no-case-declarations', 'no-class-assign', 'no-compare-neg-zero',
  'no-cond-assign', 'no-const-assign', 'no-constant-condition', 'no-dupe-args', 'no-dupe-else-if', 'no-dupe-keys', 'no-duplicate-case',
  'no-empty', 'no-empty-pattern', 'no-ex-assign', 'no-fallthrough', 'no-func-assign', 'no-global-assign', 'no-import-assign',
  'no-inner-declarations', 'no-invalid-regexp', 'no-irregular-whitespace', 'no-loss-of-precision', 'no-misleading-character-class',
  'no-obj-calls', 'no-octal', 'no-redeclare', 'no-regex-spaces', 'no-self-assign', 'no-setter-return', 'no-shadow-restricted-names',
  'no-sparse-arrays', 'no-this-before-super', 'no-undef', 'no-unexpected-multiline', 'no-unreachable', 'no-unsafe-finally',
  'no-unsafe-negation', 'no-unsafe-optional-chaining', 'no-unused-labels', 'no-unused-vars', 'no-useless-backreference', 'no-useless-catch',
  'no-useless-escape', 'require-yield', 'use-isnan', 'valid-typeof', 'eqeqeq', 'no-var', 'prefer-const', 'no-implied-eval', 'no-eval'];
const browser = ['document', 'window', 'location', 'history', 'matchMedia', 'addEventListener', 'requestAnimationFrame', 'innerWidth',
  'innerHeight', 'getComputedStyle', 'performance'];

export default [{
  files: ['page.js'],
  languageOptions: { ecmaVersion: 2023, sourceType: 'script', globals: Object.fromEntries(browser.map(name => [name, 'readonly'])) },
  linterOptions: { reportUnusedDisableDirectives: 'error' },
  rules: Object.fromEntries(rules.map(name => [name, name === 'eqeqeq' ? ['error', 'always', { null: 'ignore' }] : 'error'])),
}];
